"""The folder that a run trains, selects and reports on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from preprocess.data_folder import DataFolder
from preprocess.few_shot import count_drawn, few_shot, select_rows
from preprocess.writing import locked

from .experiment import Experiment, folder_digest

HELD_OUT_SEED = 0  # the same development set for all methods and seeds
HELD_OUT_SHARE, HELD_OUT_MOST = 10, 1000
FEW_SHOT_DEV = 1000  # Section 4.4


class Splits(NamedTuple):
    """A binarized folder, and which of its splits chooses the checkpoint and which is reported."""

    folder: DataFolder
    dev: str
    reported: str


def splits_of(experiment: Experiment, place: Path) -> Splits:
    """The task's own folder, or a copy in ``place`` with a development set held out of its training set.

    Few-shot: K examples and a development set of 1,000, or of what is left (CR has 775 beside K = 1,000), drawn anew
    for each seed (Section 4.4). Full data: the published folder reports on ``valid``; ``--selection paper`` also
    selects on it, as the paper does, ``clean`` on a tenth of the training set, at most 1,000 examples. Of examples that
    answer questions these are numbers of questions.

    Raises:
        InputError: the folder is damaged or has too few examples.
    """
    source = DataFolder(Path(experiment.data))
    if reports_on_its_choice(experiment):
        return Splits(source, "valid", "valid")
    choice = drawn(experiment, source)
    name = "K{}-dev{}-seed{}".format(*choice)
    digest = folder_digest(experiment.data, word_vectors=True)
    copy = place / f"{experiment.task}-{name}-{digest[:8]}-bin"
    place.mkdir(parents=True, exist_ok=True)
    with locked(place / f".{copy.name}.lock"):  # several runs may want it at once
        if not copy.exists():
            few_shot(source, *choice, per_class=False, out=copy)
    return Splits(DataFolder(copy), "valid", "test")


def drawn(experiment: Experiment, source: DataFolder) -> tuple[int, int, int]:
    """Examples to train on, examples to choose with, and the seed that draws them."""
    examples = count_drawn(source)
    if experiment.k is not None:
        left = max(1, examples - experiment.k)
        return experiment.k, experiment.dev_examples or min(FEW_SHOT_DEV, left), experiment.seed
    dev = experiment.dev_examples or max(1, min(HELD_OUT_MOST, examples // HELD_OUT_SHARE))
    return examples - dev, dev, HELD_OUT_SEED


def split_key(experiment: Experiment) -> tuple[object, ...]:
    """What decides which examples a run trains and selects on."""
    seed = experiment.seed if experiment.k else None
    return experiment.data, experiment.k, experiment.dev_examples, experiment.selection, seed


def check_sizes(experiments: Iterable[Experiment]) -> None:
    """Whether training sets have as many examples as will be drawn.

    Raises:
        InputError: one has too few.
    """
    for experiment in {split_key(each): each for each in experiments if not reports_on_its_choice(each)}.values():
        source = DataFolder(Path(experiment.data))
        select_rows(source, *drawn(experiment, source), per_class=False)


def reports_on_its_choice(experiment: Experiment) -> bool:
    """Whether the split that is reported also chooses the checkpoint, so that nothing is held out."""
    return experiment.supplementary or (experiment.k is None and experiment.selection == "paper")
