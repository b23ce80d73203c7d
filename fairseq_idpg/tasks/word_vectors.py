"""The mean word vectors that ``python -m preprocess glove`` left in a data folder: ``DATA/glove/SPLIT.npy``."""

import json
import os
from pathlib import Path
from typing import Optional

import numpy as np

from preprocess.data_folder import DataFolder
from preprocess.split_facts import token_digests

from ..errors import InputError

REMEDY = "run python -m preprocess glove --vectors FILE --data"


def vectors_width(data: str, given: Optional[int]) -> int:
    """Width of the folder's vectors, which --representation-width, if given, must agree with."""
    path = os.path.join(data, "glove", "glove.json")
    try:
        with open(path, encoding="utf-8") as file:
            width = int(json.load(file)["dim"])
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"--representation glove: {path} is missing or damaged: {REMEDY} {data}") from None
    if given and given != width:
        raise InputError(
            f"--representation-width {given}, but the vectors in {data}/glove have {width} numbers: leave the option "
            "out, or make the folder from other vectors"
        )
    return width


class WordVectors:
    """N x w, read from the disk when they are used."""

    def __init__(self, vectors: np.ndarray):
        self.vectors = vectors

    def rows(self, index: np.ndarray) -> np.ndarray:
        """n example numbers -> n x w; an exchanged pair, numbered from N on, has the words of its pair."""
        return self.vectors[index % len(self.vectors)]


def load_vectors(data: str, split: str, examples: int, width: int) -> WordVectors:
    """The vectors of a split.

    Raises:
        InputError: the file is missing, damaged, or made from other text or vectors of another width.
    """
    path = os.path.join(data, "glove", f"{split}.npy")
    try:
        vectors = np.load(path, mmap_mode="r")
        with open(os.path.join(data, "glove", "glove.json"), encoding="utf-8") as file:
            digests = json.load(file)["sha256"]
        if any(digests[name] != digest for name, digest in token_digests(DataFolder(Path(data)), split).items()):
            raise InputError(f"{path} was made from other text than {data} holds now: {REMEDY} {data} --overwrite")
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"--representation glove: {path} is missing or damaged: {REMEDY} {data}") from None
    if vectors.shape != (examples, width):
        raise InputError(
            f"{path} has shape {vectors.shape}, not {(examples, width)}, examples x width: {REMEDY} {data} --overwrite"
        )
    return WordVectors(vectors)
