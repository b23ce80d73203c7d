"""M(x) of every example of a split, computed once and kept on disk (the paper suggests it; nobody ships it).

Without dropout M(x) depends on the frozen backbone, its precision and the tokens alone. A file is named by these, so
another backbone, precision or text never finds it; tasks, seeds and methods that read the same tokens share it.

    DIR/KEY.npy            N x w rows, float32 or float16, complete: it gets this name when the last row is written
    DIR/KEY.json           what it was made from, and the SHA-256 of KEY.npy, which opening compares
    DIR/KEY.partial.npy    the same, not complete; a later call goes on
    DIR/KEY.done.npy       N, the CRC-32 of each row that is there: a row that does not agree is made again
"""

import contextlib
import json
import os
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Callable, Iterator, Optional

import numpy as np
from torch import Tensor

from preprocess.arrays import UNREADABLE, open_array
from preprocess.checksums import sha256
from preprocess.writing import locked, new_file

from ..errors import InputError
from .key import CacheKey

BLOCK = 1 << 20  # bytes
REMEDY = "remove it, it is made again"


class RepresentationCache:
    """The rows of one split. Pickles as its path, so that data loader processes read the file themselves.

    Args:
        precision: says the backbone's precision at the moment (fairseq halves a model that is built already); without
            it, it is always the key's.
    """

    def __init__(self, folder: str, key: CacheKey, precision: Optional[Callable[[], str]] = None):
        self.folder = os.path.abspath(folder)
        self._key = key
        self._precision = precision
        self._rows: Optional[np.ndarray] = None
        self._compared = False  # with its checksum: once, also for data loader processes

    def __getstate__(self):
        self._follow_precision()
        return {**self.__dict__, "_precision": None, "_rows": None}

    @property
    def key(self) -> CacheKey:
        self._follow_precision()
        return self._key

    def _follow_precision(self) -> None:
        precision = self._key.precision if self._precision is None else self._precision()
        if precision != self._key.precision:  # from now on other rows
            self._key = replace(self._key, precision=precision)
            self._rows, self._compared = None, False

    def path(self, ending: str) -> str:
        return os.path.join(self.folder, f"{self.key.name}.{ending}")

    @property
    def complete(self) -> bool:
        return os.path.exists(self.path("npy"))

    def rows(self, index: np.ndarray) -> Optional[np.ndarray]:
        """Rows of some examples, n x w; None as long as the cache is not complete."""
        self._follow_precision()
        if self._rows is None and not self.complete:
            return None
        rows = self.open() if self._rows is None else self._rows
        return rows[index].astype(np.float32)

    def open(self) -> np.ndarray:
        """Finds the rows of a complete cache.

        Raises:
            InputError: they are damaged, or of something else.
        """
        path = self.path("npy")
        try:
            with open(self.path("json"), encoding="utf-8") as file:
                made_from = json.load(file)
            checksum = made_from.pop("sha256", None) if isinstance(made_from, dict) else None
            if made_from != asdict(self.key):
                raise InputError(f"--representation-cache: {path} was made from something else: {REMEDY}")
            if not self._compared and sha256(Path(path)) != checksum:
                raise InputError(f"--representation-cache: {path} is damaged (its checksum differs): {REMEDY}")
            rows = open_array(path)
        except (*UNREADABLE, RecursionError) as error:
            raise InputError(f"--representation-cache: {path} is damaged ({error}): {REMEDY}") from None
        self._rows, self._compared = rows, True
        return rows

    def fill(self, encode: Callable[[np.ndarray], Tensor], batches: Iterator[np.ndarray]) -> None:
        """Computes what is missing; one process at a time, others wait and find it done.

        Args:
            encode: n example numbers -> n x w rows.
            batches: all example numbers, in batches as they are best computed.

        Raises:
            InputError: the folder cannot be written.
        """
        if self.complete:
            return
        try:
            os.makedirs(self.folder, exist_ok=True)
            with locked(Path(self.path("lock"))):
                if not self.complete:
                    self._fill(encode, batches)
        except OSError as error:
            raise InputError(
                f"--representation-cache {self.folder} cannot be written ({error.strerror or error}): name a folder "
                "with room that you may write to"
            ) from None

    def _fill(self, encode: Callable[[np.ndarray], Tensor], batches: Iterator[np.ndarray]) -> None:
        rows = self._writable("partial.npy", self.key.dtype, (self.key.rows, self.key.width))
        marks = self._writable("done.npy", "uint32", (self.key.rows,))
        done = np.asarray(marks != 0)
        done[done] = marks[done] == row_checksums(rows, np.flatnonzero(done))
        for batch in batches:
            missing = batch[~done[batch]]
            if len(missing):
                rows[missing] = self._finite(encode(missing), missing)
                rows.flush()
                marks[missing] = row_checksums(rows, missing)  # only now: a kill in between repeats a batch
                done[missing] = True
        if not done.all():
            raise ValueError("batches do not cover every example")
        rows.flush()
        del rows, marks
        made_from = {**asdict(self.key), "sha256": sha256(Path(self.path("partial.npy")))}
        with new_file(Path(self.path("json"))) as work:
            work.write_text(json.dumps(made_from, indent=1), encoding="utf-8")
        os.replace(self.path("partial.npy"), self.path("npy"))
        os.remove(self.path("done.npy"))
        self._compared = True

    def _finite(self, rows: Tensor, index: np.ndarray) -> np.ndarray:
        """Rows of some examples in the cache's type, or a refusal of what no prompt can be made from."""
        with np.errstate(over="ignore"):
            found = rows.float().cpu().numpy().astype(self.key.dtype)
        bad = ~np.isfinite(found).all(axis=1)
        if bad.any():
            wider = " or give --representation-cache-dtype float32" if self.key.dtype == "float16" else ""
            raise InputError(
                f"--representation-cache: M(x) of example {int(index[bad][0]) + 1} is not finite: take an undamaged "
                f"--backbone{wider}"
            )
        return found

    def _writable(self, ending: str, dtype: str, shape: tuple) -> np.memmap:
        """What an earlier call left of a file, or a new one of zeros."""
        path = self.path(ending)
        with contextlib.suppress(*UNREADABLE):
            found = open_array(path)  # "r+" lengthens a file to what a damaged header says
            if found.shape == shape and found.dtype == dtype and found.flags.c_contiguous:
                return open_array(path, "r+")
        for stale in {path, self.path("done.npy")}:  # rows without their marks, or marks without their rows
            with contextlib.suppress(FileNotFoundError):
                os.remove(stale)
        write_zeros(path, dtype, shape)
        return open_array(path, "r+")


def row_checksums(rows: np.ndarray, index: np.ndarray) -> np.ndarray:
    """n, CRC-32 of the bytes of some rows; never 0, the mark of a row that is not there."""
    plain = np.asarray(rows)
    return np.fromiter((zlib.crc32(plain[row]) or 1 for row in index), np.uint32, len(index))


def write_zeros(path: str, dtype: str, shape: tuple) -> None:
    """An .npy file of zeros, written as such: a full disk is an error here and not a crash at a later page."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    left = int(np.prod(shape)) * np.dtype(dtype).itemsize
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        while left:
            left -= file.write(bytes(min(left, BLOCK)))
