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

from ..errors import PREPROCESS, InputError
from ..metrics import REPORT, reported
from ..saving.record import listed

OF_CLASSES = ("report_acc_and_f1", "report_mcc")  # what fairseq's criterion reports
OF_NUMBERS = (*OF_CLASSES, "report_pearson_and_spearman")


def class_names(dictionary: Dictionary) -> list[str]:
    """The classes of a label dictionary in the order of their ids."""
    symbols = dictionary.symbols[dictionary.nspecial :]
    return [symbol for symbol in symbols if symbol != MASK and not symbol.startswith(FILLER)]


def check_scored(criterion: Any, labels: Optional["LabelOrder"]) -> None:
    """The classes must be such as the criterion's reports can score.

    fairseq's F1, MCC and correlations take the names of the classes for numbers, and F1 is of two classes.

    Raises:
        InputError: a class is called otherwise than a report needs, or there are too many; there are scores.
    """
    if labels is None:
        for option in (*(REPORT + metric for metric in reported(criterion)), *asked(criterion, OF_CLASSES)):
            raise InputError(
                f"{flag_name(option)} scores classes, and --regression-target is for scores: leave one of them out"
            )
        return
    for metric in reported(criterion):
        if metric in OF_QUESTIONS and sorted(labels.names) != ["0", "1"]:
            raise InputError(
                f"{flag_name(REPORT + metric)} scores answers with the labels 0 and 1, and {labels.data} has "
                f"{listed(labels.names)}: leave it out"
            )
    names = labels.names
    others = [name for name in names if not name.isdecimal()]
    for option in asked(criterion, OF_NUMBERS):
        if others:
            raise InputError(
                f"{flag_name(option)} scores classes that are numbers, F1 that of 1, and {labels.data} has "
                f"{listed(others)}: leave it out, or preprocess the data with the labels 0 and 1"
            )
        if option == "report_acc_and_f1" and names and (len(names) > 2 or "1" not in names):
            raise InputError(
                f"{flag_name(option)} scores two classes, F1 that of 1, and {labels.data} has {listed(names)}: leave "
                f"it out, or give {flag_name(REPORT + 'acc_and_macro_f1')} with --criterion sentence_prediction_idpg"
            )


def asked(criterion: Any, options: Sequence[str]) -> list[str]:
    """Those of some switches that the criterion is given."""
    return [option for option in options if getattr(criterion, option, False)]


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
        """Takes the order of a model's classes.

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
    if scores and not classes and not regression:
        other = "" if from_checkpoint else "--regression-target --num-classes 1, or "
        raise InputError(
            f"data folder {data} has scores (label/*.label) and this model is for classes: give {other}a folder with "
            "classes"
        )
    if classes and not scores and regression:
        raise InputError(
            f"data folder {data} has classes (label/dict.txt) and --regression-target is for scores: leave it out, or "
            "give a folder with scores"
        )
    if regression and num_classes > 1:
        raise InputError(f"--num-classes {num_classes}: --regression-target is for one score, give --num-classes 1")
    if not regression and num_classes == 1:
        raise InputError("--num-classes 1: give the number of classes, or --regression-target for scores")


def check_num_classes(data: str, num_classes: int, dictionary: Dictionary) -> None:
    """Raises InputError unless the label dictionary holds as many classes as --num-classes says."""
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
        InputError: --num-classes is no number of classes; there is no label/dict.txt, or it has another number of them.
    """
    if cfg.num_classes < 1:
        raise InputError(f"--num-classes {cfg.num_classes}: give the number of classes (1 for --regression-target)")
    if cfg.regression_target:
        return None
    path = Path(cfg.data, "label", "dict.txt")
    if from_checkpoint and not path.is_file() and not any(path.parent.glob("*.idx")):
        return LabelOrder(Dictionary(), cfg.data, cfg.num_classes)
    if not path.is_file():
        raise InputError(f"data folder {cfg.data} has no label/dict.txt: {PREPROCESS}")
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
    """Raises InputError unless every example has a label."""
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
    if found != examples:
        joined = regression and combine and os.path.isfile(os.path.join(data, "input0", f"{split}1.idx"))
        remedy = f"fairseq reads the scores of {split} alone, not of {split}1: preprocess all of them as {split}"
        raise InputError(f"{path} has {found} labels for {examples} examples: {remedy if joined else PREPROCESS}")
