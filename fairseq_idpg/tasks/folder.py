"""Checks of a binarized sentence-prediction folder, so that a wrong one is refused by name."""

import contextlib
import itertools
import os
from pathlib import Path
from typing import Iterator, List, Optional

import numpy as np
from fairseq.data import Dictionary, data_utils

from preprocess.data_folder import DataFolder
from preprocess.encoders import load_encoder
from preprocess.errors import InputError
from preprocess.validation import check_split
from preprocess.words import check_encoder, folder_encoder

PREPROCESS = "preprocess it again (README: data)"


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Reports files that cannot be read."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read ({error.strerror}): {PREPROCESS}") from None


def has_pairs(data: str) -> bool:
    """Whether the folder holds sentence pairs."""
    return os.path.isdir(os.path.join(data, "input1"))


def check_folder(data: str, regression: bool, may_lack_labels: bool = False) -> None:
    """The folder must hold input0 and, for classification, label, each with its dictionary, undamaged."""
    if not os.path.isdir(data):
        raise InputError(f"data folder {data} does not exist: give a binarized sentence-prediction folder")
    for part in ["input0"] if regression or may_lack_labels else ["input0", "label"]:
        if not os.path.isfile(os.path.join(data, part, "dict.txt")):
            raise InputError(f"data folder {data} has no {part}/dict.txt: {PREPROCESS}")
    with refused():
        DataFolder(Path(data), regression)


def check_files(data: str, split: str, regression: Optional[bool], combine: bool = False) -> None:
    """Every file of a split (``combine``: and of split1, split2 ..., as fairseq reads them) must be undamaged.

    ``regression``: whether labels are scores; None: whether the folder has any.
    """
    with refused():
        folder = DataFolder(Path(data), regression)
        for number in itertools.count():
            name = f"{split}{number}" if number else split
            if number and not (combine and name in folder.splits):
                return
            if name in folder.splits:  # or else sentence_lengths says what there is to do
                check_split(folder, name)


def check_classes(data: str, num_classes: int, labels: Optional[Dictionary]) -> None:
    """--num-classes must be what the label dictionary holds; ``labels`` is None for regression."""
    if num_classes < 1:
        raise InputError(f"--num-classes {num_classes}: give the number of classes (1 for --regression-target)")
    if labels is None:
        return
    symbols = [s for s in labels.symbols[labels.nspecial :] if s != "<mask>" and not s.startswith("madeupword")]
    if len(symbols) != num_classes:
        raise InputError(
            f"--num-classes {num_classes} disagrees with {os.path.join(data, 'label', 'dict.txt')}, which has "
            f"{len(symbols)} labels ({', '.join(symbols[:5])}): give --num-classes {len(symbols)}"
        )


def sentence_lengths(data: str, part: str, split: str, dictionary: Dictionary, combine: bool) -> np.ndarray:
    """Lengths of the sentences of ``part`` (input0 or input1) without their closing ``</s>``."""
    path = os.path.join(data, part, split)
    if not os.path.isfile(path + ".idx"):
        raise InputError(f"data folder {data} has no {part}/{split}.idx: {PREPROCESS} or name another subset")
    if not os.path.getsize(path + ".bin"):
        raise InputError(f"split {split} of {data} is empty ({part}/{split}.bin): {PREPROCESS}")
    dataset = data_utils.load_indexed_dataset(path, dictionary, combine=combine)
    return np.asarray(dataset.sizes) - 1  # a copy: the sizes lie in a file that fairseq closes with the data set


def check_labels(data: str, split: str, regression: bool, combine: bool, examples: int) -> None:
    """Every example must have a label."""
    path = os.path.join(data, "label", split)
    if regression:
        path += ".label"
        found = sum(1 for _ in open(path)) if os.path.isfile(path) else None
    else:
        path += ".idx"
        found = len(data_utils.load_indexed_dataset(path[:-4], combine=combine)) if os.path.isfile(path) else None
    if found is None:
        raise InputError(
            f"split {split} of {data} has no labels ({path} is missing): python -m fairseq_idpg.predict takes it as it "
            "is; to train or to validate, name another subset"
        )
    if found != examples:
        raise InputError(f"{path} has {found} labels for {examples} examples: {PREPROCESS}")


def encode_text(data: str, text: str) -> List[int]:
    """Ids of a text by the encoder that the folder records (``preprocess.json``), without ``</s>``."""
    if not os.path.isfile(os.path.join(data, "preprocess.json")):
        raise InputError(
            f"{data}/preprocess.json is missing, so that {text!r} cannot be encoded as the data was: make "
            "the folder with python -m preprocess"
        )
    try:
        folder = DataFolder(Path(data))
        encoder = load_encoder(*folder_encoder(folder, None, None))
        check_encoder(folder, encoder)
    except InputError as error:
        raise InputError(f"{text!r} cannot be encoded as {data} was: {error}") from None
    return encoder.encode([text])[0][:-1].tolist()
