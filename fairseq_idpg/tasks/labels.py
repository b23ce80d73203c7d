"""The labels of a data folder, and which class of the model each of them is."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.data import Dictionary, data_utils
from torch import Tensor

from preprocess.dictionary import FILLER, MASK, read_labels
from preprocess.flags import flag_name
from preprocess.split_scores import OF_QUESTIONS

from ..errors import InputError
from ..metrics import REPORT, reported
from ..saving.record import listed

F1, CORRELATIONS = "report_acc_and_f1", "report_pearson_and_spearman"
OF_NUMBERS = (F1, "report_mcc", CORRELATIONS)  # what fairseq's criterion reports


def class_names(dictionary: Dictionary) -> list[str]:
    """The classes of a label dictionary in the order of their ids."""
    symbols = dictionary.symbols[dictionary.nspecial :]
    return [symbol for symbol in symbols if symbol != MASK and not symbol.startswith(FILLER)]


def check_scored(criterion: Any, labels: Optional["LabelOrder"]) -> None:
    """Raise InputError unless the classes (None: scores) are such as the criterion's reports can score."""
    own = [REPORT + metric for metric in reported(criterion)]
    for option in (*own, *(option for option in OF_NUMBERS if getattr(criterion, option, False))):
        needed = needed_classes(option, None if labels is None else labels.names)
        if needed is not None:
            scores = "--regression-target is for scores"
            found = scores if labels is None else f"{labels.data} has {listed(labels.names)}"
            raise InputError(
                f"{flag_name(option)} scores {needed}, and {found}: leave it out, or give another report of "
                f"--criterion sentence_prediction_idpg, such as {flag_name(REPORT + 'acc_and_macro_f1')}"
            )


def needed_classes(option: str, names: Sequence[str] | None) -> str | None:
    """Return what classes a report is of, if ``names`` (None: scores) are others.

    fairseq's F1, MCC and correlations take the names of the classes for numbers, and F1 is of two classes.
    """
    if names is None:
        return None if option == CORRELATIONS else "classes"
    if option.removeprefix(REPORT) in OF_QUESTIONS and sorted(names) != ["0", "1"]:
        return "answers with the labels 0 and 1"
    if option in OF_NUMBERS and not all(map(str.isdecimal, names)):
        return "classes that are numbers"
    if option == F1 and names and (len(names) > 2 or "1" not in names):
        return "two classes, one of them 1"
    return None


class LabelOrder:
    """The classes in the folder's order, which is the model's too until a checkpoint brings another.

    Data sets ask it for every example anew: fairseq-train loads the validation set before the checkpoint, which may
    bring another order.

    Attributes:
        dictionary: names the model's classes from ``nspecial`` on, for criterions.
        names: the folder's classes; empty where it has no labels at all.
    """

    def __init__(self, dictionary: Dictionary, data: str, num_classes: int):
        self.dictionary = dictionary
        self.data = data
        self.num_classes = num_classes
        self.names = class_names(dictionary)
        self.class_of: Tensor | None = None  # the model's class of each of the folder's, where they differ

    def follow(self, names: list[str]) -> None:
        """Take the order of a model's classes.

        Raises:
            InputError: the folder has others, or --num-classes is not their number.
        """
        if self.names and sorted(self.names) != sorted(names):
            raise InputError(
                f"{os.path.join(self.data, 'label', 'dict.txt')} has the labels {listed(self.names)}, and this "
                f"checkpoint was trained on {listed(names)}: give data with its labels, or another checkpoint"
            )
        if len(names) != self.num_classes:
            raise InputError(
                f"--num-classes is {self.num_classes}, and this checkpoint has {len(names)} classes "
                f"({listed(names)}): give --num-classes {len(names)}"
            )
        for number, name in enumerate(names, start=self.dictionary.nspecial):
            if number == len(self.dictionary):
                self.dictionary.add_symbol(name)
            self.dictionary.symbols[number] = name
            self.dictionary.indices[name] = number
        same = not self.names or self.names == names
        self.class_of = None if same else torch.tensor([names.index(name) for name in self.names])

    def __call__(self, labels: Tensor) -> Tensor:
        """The model's classes of labels of the folder, counted from 0."""
        return labels if self.class_of is None else self.class_of[labels]


def check_kind(data: str, regression: bool, num_classes: int, from_checkpoint: bool) -> None:
    """--regression-target is for folders with scores, and for one score; else there are two classes or more.

    Args:
        from_checkpoint: the model is trained, and so has the outputs that it has.

    Raises:
        InputError: naming the option that disagrees with the folder.
    """
    label, names = Path(data, "label"), Path(data, "label", "dict.txt")
    scores = any(label.glob("*.label"))
    classes = any(label.glob("*.idx")) or (names.is_file() and bool(read_labels(names)))  # none: without labels
    if scores != classes and scores != regression:
        option = "" if from_checkpoint else "--regression-target --num-classes 1, or "
        of_scores = f"scores (label/*.label), and this model is for classes: give {option}a folder with classes"
        of_classes = "classes (label/dict.txt), and --regression-target is for scores: leave it out, or give scores"
        raise InputError(f"data folder {data} has {of_scores if scores else of_classes}")
    if regression != (num_classes == 1):
        raise InputError(
            f"--num-classes {num_classes}: give the number of classes; or 1 and --regression-target, for scores"
        )


def check_num_classes(data: str, num_classes: int, dictionary: Dictionary) -> None:
    """Raise InputError unless the label dictionary holds as many classes as --num-classes says."""
    symbols = class_names(dictionary)
    if len(symbols) != num_classes:
        remedy = f"give --num-classes {len(symbols)}" if len(symbols) > 1 else "preprocess it with two or more --labels"
        raise InputError(
            f"--num-classes {num_classes} disagrees with {os.path.join(data, 'label', 'dict.txt')}, which has "
            f"{len(symbols)} labels ({', '.join(symbols[:5])}): {remedy}"
        )


def load_labels(cfg: Any, load: Callable[[str], Dictionary], from_checkpoint: bool) -> LabelOrder | None:
    """The classes of the task's folder; None for scores.

    Args:
        load: reads a dict.txt as the task does.
        from_checkpoint: the folder need not have any labels, as the checkpoint will name the classes.

    Raises:
        InputError: --num-classes is another number than that of the classes.
    """
    if cfg.regression_target:
        return None
    path = Path(cfg.data, "label", "dict.txt")
    if from_checkpoint and not path.is_file():
        return LabelOrder(Dictionary(), cfg.data, cfg.num_classes)
    dictionary = load(str(path))
    if not from_checkpoint:
        check_num_classes(cfg.data, cfg.num_classes, dictionary)
    return LabelOrder(dictionary, cfg.data, cfg.num_classes)


def label_file(data: str, split: str, regression: bool) -> str:
    """Where the labels of a split are, or would be."""
    return os.path.join(data, "label", f"{split}.label" if regression else f"{split}.idx")


def check_labelled(cfg: Any, split: str, labels: LabelOrder | None, combine: bool, examples: int, needed: bool) -> None:
    """Every example of a split must have a label, or, unless labels are ``needed``, none.

    Raises:
        InputError: naming the file.
    """
    if needed or os.path.isfile(label_file(cfg.data, split, cfg.regression_target)):
        check_labels(cfg.data, split, cfg.regression_target, combine, examples)
    if labels is not None and labels.names:
        check_num_classes(cfg.data, cfg.num_classes, labels.dictionary)


def check_labels(data: str, split: str, regression: bool, combine: bool, examples: int) -> None:
    """Raise InputError unless every example has a label."""
    path = label_file(data, split, regression)
    if not os.path.isfile(path):
        raise InputError(
            f"split {split} of {data} has no labels ({path} is missing): python -m fairseq_idpg.predict takes it as it "
            "is; to train or to validate, name another subset"
        )
    if regression:
        with open(path) as file:
            found = sum(1 for _ in file)
    else:
        found = len(data_utils.load_indexed_dataset(path.removesuffix(".idx"), combine=combine))
    if found != examples:  # fairseq reads the scores of train alone, not of train1
        raise InputError(f"{path} has {found} labels for {examples} examples: preprocess all of them as {split}")
