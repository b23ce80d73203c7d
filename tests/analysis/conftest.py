"""Models trained on sentence pairs with scores."""

from pathlib import Path

import pytest

from tests.folders import changed, train
from tests.inference.conftest import REGRESSION, make_folder, vocab_and_backbone
from tests.inference.saved import write_checkpoint

PAIRS = 16


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    return vocab_and_backbone(tmp_path_factory.mktemp("analysis"))


@pytest.fixture(scope="session")
def pairs(place):
    return make_folder(place, "scores")


@pytest.fixture(scope="session")
def saved(place, pairs):
    """(method, more options) -> checkpoint in which no row is where it started."""

    def write(method: str, *options: object, without: str = "--phm-n") -> Path:
        more = [*REGRESSION, "--method", method, *options]
        return write_checkpoint(place / f"{method}.pt", pairs, place / "backbone" / "model.pt", *more, without=without)

    return write


@pytest.fixture(scope="session")
def idpg(saved):
    return saved("m-idpg-phm", "--prompt-position", 3, "--prompt-length", 3, without="")


@pytest.fixture(scope="session")
def task_prompt(saved):
    return saved("prompt-tuning", "--prompt-position", 4)


@pytest.fixture(scope="session")
def tuned(saved):
    return saved("fine-tuning")


@pytest.fixture(scope="session")
def stock(place, pairs):
    """A checkpoint of fairseq's own task and model."""
    own = ["--task", "sentence_prediction", "--arch", "roberta", "--max-epoch", 1, *REGRESSION]
    train(pairs, place / "stock", *own, without="--phm-n")
    return place / "stock" / "checkpoint_last.pt"


def edited(checkpoint: Path, target: Path, **model_options: object) -> Path:
    """A copy whose configuration says something else of the model."""
    return changed(checkpoint, lambda state: state["cfg"]["model"].update(model_options), target)
