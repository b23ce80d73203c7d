"""The mean word vectors that ``python -m preprocess glove`` left in a data folder: ``DATA/glove/SPLIT.npy``."""

import logging
from pathlib import Path

import numpy as np

from preprocess.data_folder import DataFolder
from preprocess.glove import REMEDY, read_facts, read_means

from ..errors import InputError, reading_data

logger = logging.getLogger(__name__)


def vectors_width(data: str, given: int | None) -> int:
    """Return --representation-width if it is ``given``, else that of the folder's vectors, see ``load_vectors``.

    Raises:
        InputError: the folder has no vectors.
    """
    with reading_data():
        width = read_facts(Path(data))["dim"]
    return given or width


class WordVectors:
    """N x w, read from the disk when they are used."""

    def __init__(self, vectors: np.ndarray):
        self.vectors = vectors

    def rows(self, index: np.ndarray) -> np.ndarray:
        """n example numbers -> n x w; an exchanged pair, numbered from N on, has the words of its pair."""
        return self.vectors[index % len(self.vectors)]


def load_vectors(data: str, split: str, width: int, combine: bool = False) -> WordVectors:
    """The vectors of a split; ``combine``: and of split1, split2 ..., as fairseq reads them.

    Raises:
        InputError: the file is missing, damaged, or made from other text or vectors of another width.
    """
    with reading_data():
        folder = DataFolder(Path(data))
        splits = folder.joined(split) if combine else [split]
        parts = [read_means(folder, name, logger.warning) for name in splits]
        shapes = [(len(folder.rows("input0", name)), width) for name in splits]
    for name, part, shape in zip(splits, parts, shapes):
        if part.shape != shape:
            raise InputError(
                f"{data}/glove/{name}.npy has shape {part.shape}, not {shape}, examples x --representation-width: "
                f"leave the option out, or {REMEDY} {data} --overwrite"
            )
    return WordVectors(parts[0] if len(parts) == 1 else np.concatenate(parts))
