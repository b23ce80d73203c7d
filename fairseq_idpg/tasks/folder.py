"""The data folder of a task: checks, what it holds, and which class each label is."""

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from torch import Tensor

from preprocess.checksums import FOLDER_FACTS
from preprocess.data_folder import DataFolder, check_split, has_exchanged_pairs, joined
from preprocess.dictionary import FILLER, MASK, read_labels, unescape_label
from preprocess.encoders import Encoder, check_encoder, folder_encoder, load_encoder
from preprocess.flags import flag_name
from preprocess.glove import read_facts
from preprocess.questions import Questions, question_file
from preprocess.split_scores import OF_QUESTIONS, OF_TEXTS

from ..errors import PREPROCESS, InputError
from ..metrics import REPORT, reported
from ..saving.configuration import fits
from ..saving.record import Record, listed, read_record, symbols_fingerprint

F1, CORRELATIONS = "report_acc_and_f1", "report_pearson_and_spearman"
OF_NUMBERS = (F1, "report_mcc", CORRELATIONS)  # what fairseq's criterion reports


def has_pairs(data: str) -> bool:
    return os.path.isdir(os.path.join(data, "input1"))


def check_folder(cfg: Any, from_checkpoint: bool) -> None:
    """Raise InputError for missing or damaged files, or files that disagree with the task's options.

    ``from_checkpoint``: the model has its outputs already, so the folder may lack labels.
    """
    data, regression = cfg.data, cfg.regression_target
    label, names = Path(data, "label"), Path(data, "label", "dict.txt")
    labelled = any(label.glob("*.idx"))
    scores, classes = any(label.glob("*.label")), labelled or (names.is_file() and bool(read_labels(names)))
    # The folder has labels of one kind, and this run is for the other.
    if scores != classes and scores != regression:
        option = "" if from_checkpoint else "--regression-target --num-classes 1, or "
        has_scores = f"scores (label/*.label), and this model is for classes: give {option}a folder with classes"
        has_classes = "classes (label/dict.txt), and --regression-target is for scores: leave it out, or give scores"
        raise InputError(f"data folder {data} has {has_scores if scores else has_classes}")
    if regression != (cfg.num_classes == 1):
        raise InputError(f"--num-classes {cfg.num_classes}: give the number of classes, or 1 and --regression-target")
    DataFolder(Path(data), regression)
    if not regression and (labelled or not from_checkpoint) and not names.is_file():
        raise InputError(f"data folder {data} has no label/dict.txt: {PREPROCESS}")
    # A folder that holds its training pairs in both orders would be trained on four times.
    if str(cfg.swap_pairs) == "append":
        if not has_pairs(data):
            raise InputError(f"--swap-pairs append needs sentence pairs, but {data} has no input1: leave it out")
        if not from_checkpoint and has_exchanged_pairs(DataFolder(Path(data))):
            raise InputError(f"--swap-pairs append: {data} has each training pair in both orders already: leave it out")


def check_files(data: str, split: str, regression: bool, combine: bool = False) -> None:
    """Raise InputError for a split that is missing, empty or damaged. ``combine``: check split1 ... too."""
    folder = DataFolder(Path(data), regression)
    if split not in folder.splits:
        raise InputError(f"data folder {data} has no input0/{split}.idx: give a split of {', '.join(folder.splits)}")
    examples = [check_split(folder, name) for name in (joined(split, folder.splits) if combine else [split])]
    if not examples[0]:
        raise InputError(f"split {split} of {data} is empty: {PREPROCESS}")


def find_questions(data: str, split: str, reports: Sequence[str]) -> Questions | None:
    """Return each example's question, if examples are answers; raise InputError if ``reports`` lack them."""
    questions = DataFolder(Path(data)).questions(split)
    for metric in reports:
        scored = questions is not None and (metric not in OF_TEXTS or questions.em is not None)
        if metric in OF_QUESTIONS and not scored:
            what = "no" if questions is None else "no texts of answers in"
            raise InputError(
                f"{flag_name(REPORT + metric)} scores questions; {data} has {what} {question_file(split)}: leave it out"
            )
    return questions


def read_sentences(data: str, part: str, split: str, dictionary: Dictionary, combine: bool) -> Any:
    """Return fairseq's dataset of the sentences of ``part`` (input0 or input1), each closed by ``</s>``."""
    return data_utils.load_indexed_dataset(os.path.join(data, part, split), dictionary, combine=combine)


def sentence_lengths(sentences: Any) -> np.ndarray:
    """Return the lengths of such sentences without their closing ``</s>``."""
    return np.asarray(sentences.sizes) - 1  # a copy: the sizes lie in a file that fairseq closes with the dataset


def text_encoder(data: str, text: str) -> Encoder:
    """Return the encoder that the folder records, to encode ``text``; raise InputError where it is gone or another."""
    if not os.path.isfile(os.path.join(data, FOLDER_FACTS)):
        raise InputError(f"{data}/{FOLDER_FACTS} is missing, which says how to encode {text!r}: {PREPROCESS}")
    folder = DataFolder(Path(data))
    encoder = load_encoder(*folder_encoder(folder, None, None))
    check_encoder(folder, encoder)
    return encoder


def folder_record(cfg: Any, dictionary: Dictionary, label_names: list[str]) -> Record:
    """Return the record of the task's folder, from its files and its ``preprocess.json``; InputError: damaged."""
    pairs, facts, vectors = has_pairs(cfg.data), preprocess_facts(cfg.data), None
    with contextlib.suppress(InputError):  # no word vectors, or damaged ones
        vectors = read_facts(Path(cfg.data)).get("vectors_sha256")
    return replace(
        facts,
        regression=cfg.regression_target,
        labels=label_names or None,
        scale=facts.scale if cfg.regression_target else None,
        pairs=pairs,
        tokens={"--init-token": cfg.init_token, "--separator-token": cfg.separator_token if pairs else None},
        prompt_position=cfg.prompt_position,
        dictionary=symbols_fingerprint(dictionary),
        vectors=vectors if fits(vectors, dict[str, str]) else None,
    )


def preprocess_facts(data: str) -> Record:
    """Return the record in ``preprocess.json``, empty where there is none; raise InputError where it is damaged."""
    facts = DataFolder(Path(data)).facts()
    values = {name: facts.get(name) for name in ("task", "scale", "bpe", "vocab", "max_length")}
    return read_record({**values, "bpe_sha256": facts.get("vocab_sha256")}, f"{data}/{FOLDER_FACTS}")


def class_names(dictionary: Dictionary) -> list[str]:
    """Return the classes of a label dictionary in the order of their ids."""
    symbols = dictionary.symbols[dictionary.nspecial :]
    return [symbol for symbol in symbols if symbol != MASK and not symbol.startswith(FILLER)]


@dataclass
class LabelOrder:
    """The classes in the folder's order, which is the model's too until a checkpoint brings another.

    Datasets ask for the class of each example anew, as fairseq-train loads the validation set before the checkpoint.
    """

    dictionary: Dictionary  # names the model's classes from ``nspecial`` on, for criterions
    data: str
    num_classes: int
    class_of: Tensor | None = None  # the folder's class -> the model's, where they differ

    def __post_init__(self) -> None:
        symbols, first = self.dictionary.symbols, self.dictionary.nspecial
        symbols[first:] = map(unescape_label, symbols[first:])
        self.dictionary.indices = {symbol: number for number, symbol in enumerate(symbols)}
        self.names = class_names(self.dictionary)  # the folder's classes; empty where it has no labels at all

    def check_count(self) -> None:
        """Raise InputError unless the label dictionary holds as many classes as --num-classes says."""
        names, file = class_names(self.dictionary), os.path.join(self.data, "label", "dict.txt")
        if len(names) != self.num_classes:
            has = "one label" if names else "no labels"
            problem = f"{file} has {has}: prepare examples of two classes or more, or scores with --regression"
            if len(names) > 1:
                has = f"{file}, which has {len(names)} labels ({', '.join(names[:5])})"
                problem = f"--num-classes {self.num_classes} disagrees with {has}: give --num-classes {len(names)}"
            raise InputError(problem)

    def take_order(self, names: list[str]) -> None:
        """Take the order of a model's classes; raise InputError for other names, or another number of classes."""
        if self.names and sorted(self.names) != sorted(names):
            raise InputError(
                f"{os.path.join(self.data, 'label', 'dict.txt')} has the labels {listed(self.names)}, and this "
                f"checkpoint was trained on {listed(names)}: give data with its labels, or another checkpoint"
            )
        if len(names) != self.num_classes:
            wanted = f"this checkpoint has {len(names)} classes, {listed(names)}: give --num-classes {len(names)}"
            raise InputError(f"--num-classes {self.num_classes}: {wanted}")
        for number, name in enumerate(names, start=self.dictionary.nspecial):
            if number == len(self.dictionary):
                self.dictionary.add_symbol(name)
            self.dictionary.symbols[number] = name
            self.dictionary.indices[name] = number
        same = not self.names or self.names == names
        self.class_of = None if same else torch.tensor([names.index(name) for name in self.names])

    def __call__(self, labels: Tensor) -> Tensor:
        """Map labels of the folder, counted from 0, to the model's classes."""
        return labels if self.class_of is None else self.class_of[labels]


def load_labels(cfg: Any, load: Callable[[str], Dictionary], from_checkpoint: bool) -> LabelOrder | None:
    """Return the classes of the task's folder, None for scores; raise InputError unless they are --num-classes many.

    ``load`` reads a dict.txt as the task does. ``from_checkpoint``: the folder may lack labels.
    """
    if cfg.regression_target:
        return None
    path = Path(cfg.data, "label", "dict.txt")
    lacks_names = from_checkpoint and not path.is_file()
    labels = LabelOrder(Dictionary() if lacks_names else load(str(path)), cfg.data, cfg.num_classes)
    if not from_checkpoint:
        labels.check_count()
    return labels


def check_labels(data: str, split: str, regression: bool, combine: bool, examples: int, needed: bool = True) -> None:
    """Raise InputError unless each example of a split has a label; a split without any may pass if not ``needed``."""
    path = os.path.join(data, "label", f"{split}.label" if regression else f"{split}.idx")
    if not os.path.isfile(path):
        if not needed:
            return
        raise InputError(f"split {split} has no labels ({path}): name another, or run python -m fairseq_idpg.predict")
    if regression:
        count = len(DataFolder(Path(data), regression).targets(split))
    else:
        count = len(data_utils.load_indexed_dataset(path.removesuffix(".idx"), combine=combine))
    if count != examples:  # fairseq reads only the scores of train, not those of train1
        raise InputError(f"{path} has {count} labels for {examples} examples: preprocess all of them as {split}")


def check_scored(criterion: Any, labels: LabelOrder | None) -> None:
    """Raise InputError unless the criterion's reports can score these classes (None: scores).

    fairseq's F1, MCC and correlations take the names of the classes for numbers, and its F1 is of two classes.
    """
    names = [] if labels is None else labels.names
    own = [REPORT + metric for metric in reported(criterion)]
    for option in (*own, *(option for option in OF_NUMBERS if getattr(criterion, option, False))):
        needs = {
            "classes": labels is None and option != CORRELATIONS,
            "answers with the labels 0 and 1": option.removeprefix(REPORT) in OF_QUESTIONS
            and sorted(names) != ["0", "1"],
            "classes that are numbers": option in OF_NUMBERS and not all(map(str.isdecimal, names)),
            "two classes, one of them 1": option == F1 and names and (len(names) > 2 or "1" not in names),
        }
        lacking = next((need for need, lacks in needs.items() if lacks), None)
        if lacking is not None:
            has = f"{labels.data} has {listed(names)}" if labels else "--regression-target is for scores"
            raise InputError(
                f"{flag_name(option)} scores {lacking}, and {has}: leave it out, or give another report of "
                f"--criterion sentence_prediction_idpg, such as {flag_name(REPORT + 'acc_and_macro_f1')}"
            )
