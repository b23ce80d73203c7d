"""The labels of a data folder, and which class of the model each of them is."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, List, Optional

import torch
from fairseq.data import Dictionary
from torch import Tensor

from preprocess.dictionary import FILLER

from ..arguments import flag_name
from ..errors import InputError
from ..saving.record import KeptRecord, Record, listed, read_record, symbols_fingerprint
from . import folder as folder


def class_names(dictionary: Dictionary) -> List[str]:
    """The classes of a label dictionary in the order of their ids."""
    symbols = dictionary.symbols[dictionary.nspecial :]
    return [symbol for symbol in symbols if symbol != "<mask>" and not symbol.startswith(FILLER)]


def check_scored(criterion: Any, labels: Optional["LabelOrder"]) -> None:
    """F1 and MCC are of numbers: fairseq's criterion takes the names of the classes for such.

    Raises:
        InputError: a class has another name.
    """
    for option in ("report_acc_and_f1", "report_mcc"):
        names = labels.names if labels is not None and getattr(criterion, option, False) else []
        others = [name for name in names if not name.isdecimal()]
        if others:
            raise InputError(
                f"{flag_name(option)} scores classes that are numbers, F1 that of 1, and {labels.data} has "
                f"{listed(others)}: leave it out, or preprocess the data with the labels 0 and 1"
            )


class LabelOrder:
    """The classes in the folder's order, which is the model's too until a checkpoint brings another.

    Data sets ask at each batch: fairseq-train loads the validation set before the checkpoint.

    Attributes:
        dictionary: names the model's classes from ``nspecial`` on, for criterions.
        names: the folder's classes; empty where it has no labels at all.
    """

    def __init__(self, dictionary: Dictionary, data: str, num_classes: int):
        self.dictionary = dictionary
        self.data = data
        self.num_classes = num_classes
        self.names = class_names(dictionary)
        self.class_of: Optional[Tensor] = None  # the model's class of each of the folder's, where they differ

    def follow(self, names: List[str]) -> None:
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


def check_kind(data: str, regression: bool, num_classes: int) -> None:
    """--regression-target is for folders with scores, and for one score; else there are two classes or more.

    Raises:
        InputError: naming the option that disagrees with the folder.
    """
    label = Path(data, "label")
    scores, classes = any(label.glob("*.label")), (label / "dict.txt").is_file()
    if scores and not classes and not regression:
        raise InputError(
            f"data folder {data} has scores (label/*.label) and this model is for classes: give --regression-target "
            "--num-classes 1, or a folder with classes"
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


def load_labels(cfg: Any, load: Callable[[str], Dictionary], from_checkpoint: bool) -> Optional[LabelOrder]:
    """The classes of the task's folder; None for scores.

    Args:
        load: reads a dict.txt as the task does.
        from_checkpoint: the folder need not have any labels, as the checkpoint will name the classes.

    Raises:
        InputError: there is no label/dict.txt, or it has another number of classes.
    """
    folder.check_classes(cfg.data, cfg.num_classes, None)
    if cfg.regression_target:
        return None
    path = Path(cfg.data, "label", "dict.txt")
    if from_checkpoint and not path.is_file() and not any(path.parent.glob("*.idx")):
        return LabelOrder(Dictionary(), cfg.data, cfg.num_classes)
    if not path.is_file():
        raise InputError(f"data folder {cfg.data} has no label/dict.txt: {folder.PREPROCESS}")
    dictionary = load(str(path))
    if not from_checkpoint:
        folder.check_classes(cfg.data, cfg.num_classes, dictionary)
    return LabelOrder(dictionary, cfg.data, cfg.num_classes)


def check_labels(
    cfg: Any, split: str, labels: Optional[LabelOrder], combine: bool, examples: int, needed: bool
) -> None:
    """Every example of a split must have a label, or, unless labels are ``needed``, none.

    Raises:
        InputError: naming the file.
    """
    path = Path(cfg.data, "label", f"{split}.label" if cfg.regression_target else f"{split}.idx")
    if needed or path.is_file():
        folder.check_labels(cfg.data, split, cfg.regression_target, combine, examples)
    if labels is not None and labels.names:
        folder.check_classes(cfg.data, cfg.num_classes, labels.dictionary)


def kept_record(task: Any, training: bool) -> KeptRecord:
    """What checkpoints keep of the task's folder; of a task without one the dictionary's alone."""
    if task.record is None:
        dictionary = Record(dictionary=symbols_fingerprint(task.source_dictionary))
        return KeptRecord(dictionary, "the text", None, training)
    follow = None if task.labels is None else task.labels.follow
    return KeptRecord(task.record, task.cfg.data, follow, training)


def folder_record(cfg: Any, dictionary: Dictionary, labels: Optional[LabelOrder]) -> Record:
    """What is known of the task's folder, from its files and the ``preprocess.json`` that our preprocess leaves there.

    Raises:
        InputError: ``preprocess.json`` is damaged.
    """
    pairs = folder.has_pairs(cfg.data)
    facts = preprocess_facts(cfg.data)
    return replace(
        facts,
        regression=cfg.regression_target,
        labels=labels.names if labels is not None and labels.names else None,
        scale=facts.scale if cfg.regression_target else None,
        pairs=pairs,
        tokens={"--init-token": cfg.init_token, "--separator-token": cfg.separator_token if pairs else None},
        prompt_position=cfg.prompt_position,
        dictionary=symbols_fingerprint(dictionary),
    )


def preprocess_facts(data: str) -> Record:
    """What ``preprocess.json`` says: the task's name, the encoder, the scale of scores; nothing where there is none."""
    path = Path(data, "preprocess.json")
    if not path.is_file():
        return Record()
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        named = {"task": "task", "scale": "scale", "bpe": "bpe", "bpe_sha256": "vocab_sha256"}
        return read_record({name: facts.get(key) for name, key in named.items()}, str(path))
    except (OSError, ValueError, AttributeError):
        raise InputError(f"{path} is damaged: make the folder with python -m preprocess") from None
