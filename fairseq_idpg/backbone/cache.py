"""M(x) of every example of a split, computed once and kept on disk (the paper suggests it; nobody ships it).

Without dropout M(x) depends on the frozen backbone and the tokens alone. A file is named by the fingerprint of both, so
another backbone or other text never finds it; tasks, seeds and methods that read the same tokens share it.

    DIR/KEY.npy            N x w rows, float32 or float16, complete: it gets this name when the last row is written
    DIR/KEY.json           what it was made from
    DIR/KEY.partial.npy, DIR/KEY.done.npy    the same, not complete: which rows are there; a later call goes on
"""

import contextlib
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from typing import Callable, Iterator, Optional

import numpy as np
from torch import Tensor

from ..errors import InputError

FORMAT = 1
BLOCK = 1 << 20  # bytes
REMEDY = "remove it, it is made again"


@dataclass(frozen=True)
class CacheKey:
    """What rows depend on.

    Attributes:
        backbone: SHA-256 of the backbone's file.
        tokens: SHA-256 of the token rows that the backbone reads.
        kind: the --representation.
        rows, width: N and w.
        dtype: ``float32`` or ``float16``.
    """

    backbone: str
    tokens: str
    kind: str
    rows: int
    width: int
    dtype: str
    format: int = FORMAT

    @property
    def name(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:32]


class RepresentationCache:
    """The rows of one split. Pickles as its path, so that data loader processes read the file themselves."""

    def __init__(self, folder: str, key: CacheKey):
        self.folder = os.path.abspath(folder)
        self.key = key
        self._rows: Optional[np.ndarray] = None

    def __getstate__(self):
        return {**self.__dict__, "_rows": None}

    def path(self, ending: str) -> str:
        return os.path.join(self.folder, f"{self.key.name}.{ending}")

    @property
    def complete(self) -> bool:
        return os.path.exists(self.path("npy"))

    def rows(self, index: np.ndarray) -> Optional[np.ndarray]:
        """Rows of some examples, n x w; None as long as the cache is not complete."""
        if self._rows is None:
            if not self.complete:
                return None
            self._rows = self._open()
        return self._rows[index].astype(np.float32)

    def _open(self) -> np.ndarray:
        try:
            with open(self.path("json"), encoding="utf-8") as file:
                made_from = json.load(file)
            rows = np.load(self.path("npy"), mmap_mode="r")
        except (OSError, ValueError) as error:
            raise InputError(f"--representation-cache: {self.path('npy')} is damaged ({error}): {REMEDY}") from None
        if made_from != asdict(self.key) or rows.shape != (self.key.rows, self.key.width):
            raise InputError(f"--representation-cache: {self.path('npy')} was made from something else: {REMEDY}")
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
            with locked(self.path("lock")):
                if not self.complete:
                    self._fill(encode, batches)
        except OSError as error:
            raise InputError(
                f"--representation-cache {self.folder} cannot be written ({error.strerror or error}): name a folder "
                "with room that you may write to"
            ) from None

    def _fill(self, encode: Callable[[np.ndarray], Tensor], batches: Iterator[np.ndarray]) -> None:
        rows = self._writable("partial.npy", self.key.dtype, (self.key.rows, self.key.width))
        done = self._writable("done.npy", "bool", (self.key.rows,))
        for batch in batches:
            missing = batch[~done[batch]]
            if len(missing):
                rows[missing] = encode(missing).float().cpu().numpy()
                rows.flush()
                done[missing] = True  # only now: a kill in between repeats a batch
        if not done.all():
            raise ValueError("batches do not cover every example")
        rows.flush()
        del rows, done
        work = self.path("json.partial")
        with open(work, "w", encoding="utf-8") as file:
            json.dump(asdict(self.key), file, indent=1)
        os.replace(work, self.path("json"))
        os.replace(self.path("partial.npy"), self.path("npy"))
        os.remove(self.path("done.npy"))

    def _writable(self, ending: str, dtype: str, shape: tuple) -> np.ndarray:
        """What an earlier call left of a file, or a new one of zeros."""
        path = self.path(ending)
        with contextlib.suppress(OSError, ValueError):
            found = np.load(path, mmap_mode="r+")
            if found.shape == shape and found.dtype == dtype:
                return found
        for stale in {path, self.path("done.npy")}:  # rows without their marks, or marks without their rows
            with contextlib.suppress(FileNotFoundError):
                os.remove(stale)
        write_zeros(path, dtype, shape)
        return np.load(path, mmap_mode="r+")


def write_zeros(path: str, dtype: str, shape: tuple) -> None:
    """An .npy file of zeros, written as such: a full disk is an error here and not a crash at a later page."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    left = int(np.prod(shape)) * np.dtype(dtype).itemsize
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        while left:
            left -= file.write(bytes(min(left, BLOCK)))


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Holds a lock that the system takes back when the process ends, however it ends."""
    import fcntl

    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def digest_of(parts: Iterator[bytes]) -> str:
    """SHA-256 of some bytes, each part with its length so that parts cannot run into each other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def length_sorted_batches(sizes: np.ndarray, max_tokens: int) -> Iterator[np.ndarray]:
    """All example numbers, longest first (so that memory does not run out later), padded to at most ``max_tokens``."""
    order = np.argsort(-sizes, kind="stable")
    start = 0
    while start < len(order):
        count = max(1, max_tokens // max(1, int(sizes[order[start]])))
        yield order[start : start + count]
        start += count
