"""What the frozen backbone makes of every example of a split, computed once and kept on disk.

M(x) (the paper suggests it; nobody ships it), or the states of all tokens below a layer, see ``states``. Without
dropout they depend on the frozen backbone, its precision and the tokens alone. A file is named by these, so another
backbone, precision or text never finds it; tasks, seeds and methods that read the same tokens share it.

    DIR/KEY.npy            rows, example after example, complete: it gets this name when the last row is written
    DIR/KEY.json           what it was made from, and the SHA-256 of KEY.npy, which opening compares
    DIR/KEY.partial.npy    the same, not complete; a later call goes on
    DIR/KEY.done.npy       N, the CRC-32 of the rows of each example that is there: what does not agree is made again
"""

import contextlib
import hashlib
import json
import logging
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from preprocess.checksums import regular, sha256
from preprocess.indexed import UNREADABLE, open_array
from preprocess.writing import locked, write_text

from ..backbone.encoder import in_mode
from ..backbone.weights import GEOMETRY
from ..errors import InputError
from ..out_of_memory import WITHOUT_GPU, refuse_batch
from .kinds import sentence_representation

logger = logging.getLogger(__name__)
FORMAT = 2
TOKENS_AT_A_TIME = 8192
NO_CACHES = {"representation_cache": None, "state_cache": None}  # of a checkpoint that is used elsewhere
REMEDY = "remove it, it is made again"
STORED_AS = {"bfloat16": "int16"}  # numpy has no such numbers: their bits


@dataclass(frozen=True)
class CacheKey:
    """All that the rows of a file depend on, by which it is named.

    Rows are computed in the precision of the backbone's weights and kept apart by it, so they do not depend on who
    filled the cache: float32 for runs in float32 and with --amp, half precision for --fp16 and --bf16. A run without a
    cache computes the same M(x) in batches of other shapes, so that its numbers differ by rounding; with --amp also
    because its training steps compute M(x) partly in half precision.
    """

    backbone: str  # SHA-256 of its tensors and of how they are read, see ``cache_key``
    tokens: str  # SHA-256 of the token rows that the backbone reads
    kind: str  # the --representation, or the layer that states enter
    rows: int  # N; of states all tokens
    width: int  # w; of states d
    dtype: str  # of the numbers in the file: float32, float16 or bfloat16
    precision: str  # in which the backbone computed them: one of these
    format: int = FORMAT

    @property
    def name(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class SplitText:
    """The texts of a split: its files, and how the task joins, cuts and exchanges them."""

    data: str  # the folder
    split: str
    inputs: Sequence[str]  # input0, with pairs input1 too
    combine: bool  # together with split1, split2 ..., as fairseq reads them
    examples: int  # in these files
    copies: int  # of every example, as exchanged pairs are copies
    arrangement: Sequence[Any]  # what else changes the tokens: plain values, and arrays of a number for each example

    def digest(self) -> str:
        """Fingerprint of the token rows that the backbone reads."""
        files = []
        for part in self.inputs:
            more = sorted(Path(self.data, part).glob(f"{self.split}[0-9]*.bin")) if self.combine else []
            files += [Path(self.data, part, f"{self.split}.bin"), *more]
        parts = [sha256(file).encode() for file in files]
        parts += [part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode() for part in self.arrangement]
        return digest_of_parts(*parts)


def digest_of_parts(*parts: bytes) -> str:
    """SHA-256 of some bytes, each part with its length so that parts cannot run into each other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def precision_of(model: Any) -> str:
    """``float32``, ``float16`` or ``bfloat16``: what the backbone's weights are at the moment."""
    return str(next(model.encoder.parameters()).dtype).replace("torch.", "")


def cache_key(model: Any, text: SplitText, kind: str, rows: int, dtype: str) -> CacheKey:
    """What rows depend on that the backbone of ``model`` makes of a split now."""
    # the digest of tensors does not tell heads, activation and eps; a command line's choices are no strings
    sizes = ", ".join(str(getattr(model.args, name)) for name in GEOMETRY)
    backbone = digest_of_parts(model.backbone_digest.encode(), f"[{sizes}]".encode())
    width = model.args.encoder_embed_dim
    return CacheKey(backbone, text.digest(), kind, rows, width, dtype, precision=precision_of(model))


class RowCache:
    """Rows of numbers of the examples of a split. Pickles as its path: data loader processes read the file themselves.

    ``lengths``: N, how many rows each example has. ``precision``: says the backbone's at the moment (fairseq halves a
    model that is built already); without it, it is always the key's.
    """

    option = what = ""  # what names the folder, and what the rows are, for errors
    exact = ""  # the value of ``option``-dtype with which no number is rounded

    def __init__(self, folder: str, key: CacheKey, lengths: np.ndarray, precision: Callable[[], str] | None = None):
        self.folder = os.path.abspath(folder)
        # N + 1: example i has the rows from ``starts[i]`` to ``starts[i + 1]``
        self.starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self._key = key
        self._precision = precision
        self._rows: dict[CacheKey, np.ndarray] = {}  # those that are open
        self._compared: set[CacheKey] = set()  # with their checksum: once, also for data loader processes

    def __getstate__(self):
        return {**self.__dict__, "_key": self.key, "_precision": None, "_rows": {}}

    @property
    def key(self) -> CacheKey:
        return self._key if self._precision is None else self.key_in(self._precision())

    def key_in(self, precision: str) -> CacheKey:
        """The key of the rows that a backbone of another precision computes."""
        return replace(self._key, precision=precision)

    def path(self, ending: str) -> str:
        return os.path.join(self.folder, f"{self.key.name}.{ending}")

    @property
    def complete(self) -> bool:
        return os.path.exists(self.path("npy"))

    def opened(self) -> np.ndarray | None:
        """All rows; None as long as the cache is not complete."""
        key = self.key
        if key not in self._rows and self.complete:
            self.open()
        return self._rows.get(key)

    def open(self) -> None:
        """Find the rows of a complete cache; InputError if they are damaged, or of something else."""
        key, path = self.key, self.path("npy")
        try:
            with open(regular(self.path("json")), encoding="utf-8") as file:
                made_from = json.load(file)
            checksum = made_from["sha256"] if key in self._compared else sha256(Path(path))
            if made_from != {**asdict(key), "sha256": checksum}:
                raise ValueError("its checksum differs, or it was made from something else")
            self._rows[key] = open_array(path)
        except (*UNREADABLE, LookupError, RecursionError) as error:
            raise InputError(f"{self.option}: {path} is damaged ({error}): {REMEDY}") from None
        self._compared.add(key)

    def compute(self, model: Any, index: np.ndarray, tokens: Tensor, padded: bool) -> Tensor:
        """Return the rows of some examples, one example after the other, from their n x T tokens.

        ``padded``: whether there are pads among these.
        """
        raise NotImplementedError

    def fill(self, encode: Callable[[np.ndarray], Tensor], batches: Iterator[np.ndarray]) -> None:
        """Compute what is missing; one process at a time, others wait and find it done.

        ``encode``: n example numbers -> their rows, one example after the other, each w wide; ``batches``: all example
        numbers, as they are best computed. Raise InputError where the folder cannot be written.
        """
        try:
            os.makedirs(self.folder, exist_ok=True)
            with locked(Path(self.path("lock"))):
                if not self.complete:
                    self._fill(encode, batches)
        except OSError as error:
            raise InputError(
                f"{self.option} {self.folder} cannot be written ({error.strerror or error}): name a folder "
                "with room that you may write to"
            ) from None

    def _fill(self, encode: Callable[[np.ndarray], Tensor], batches: Iterator[np.ndarray]) -> None:
        key = self.key
        rows = self._writable("partial.npy", STORED_AS.get(key.dtype, key.dtype), (key.rows, key.width))
        marks = self._writable("done.npy", "uint32", (len(self.starts) - 1,))
        done = np.asarray(marks != 0)
        done[done] = marks[done] == self._checksums(rows, np.flatnonzero(done))
        for batch in batches:
            missing = batch[~done[batch]]
            if len(missing):
                rows[self._numbers(missing)] = self._finite(encode(missing), missing)
                # a row that a power cut loses does not agree with its mark
                marks[missing] = self._checksums(rows, missing)
                done[missing] = True
        assert done.all()
        rows.flush()
        del rows, marks
        made_from = {**asdict(key), "sha256": sha256(Path(self.path("partial.npy")))}
        write_text(Path(self.path("json")), json.dumps(made_from, indent=1))
        os.remove(self.path("done.npy"))  # first: nobody looks for it beside whole rows
        os.replace(self.path("partial.npy"), self.path("npy"))
        self._compared.add(key)

    def _numbers(self, index: np.ndarray) -> np.ndarray:
        """The numbers of the rows of some examples, one example after the other."""
        return np.concatenate([np.arange(self.starts[i], self.starts[i + 1]) for i in index])

    def _checksums(self, rows: np.ndarray, index: np.ndarray) -> np.ndarray:
        """n, CRC-32 of the bytes of some examples' rows; never 0, the mark of rows that are not there."""
        plain: Any = np.asarray(rows)
        starts = self.starts
        found = (zlib.crc32(plain[starts[i] : starts[i + 1]]) or 1 for i in index)
        return np.fromiter(found, np.uint32, len(index))

    def _finite(self, rows: Tensor, index: np.ndarray) -> np.ndarray:
        """Rows of some examples as they are stored; InputError for numbers that no prompt can be made from."""
        found = rows.detach().cpu().to(getattr(torch, self.key.dtype))
        bad = ~found.isfinite().all(1).numpy()
        if bad.any():
            example = np.repeat(index, self.starts[index + 1] - self.starts[index])[bad][0]
            narrow = self.key.dtype == "float16" and self.key.precision != "float16"
            wider = f" or give {self.option}-dtype {self.exact}" if narrow else ""
            raise InputError(
                f"{self.option}: not finite: {self.what} of example {example + 1}: take an undamaged --backbone{wider}"
            )
        return found.view(torch.int16).numpy() if self.key.dtype == "bfloat16" else found.numpy()

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


class RepresentationCache(RowCache):
    """M(x) of the examples of a split, a row each."""

    option, what, exact = "--representation-cache", "M(x)", "float32"

    def __init__(self, folder: str, key: CacheKey, precision: Callable[[], str] | None = None):
        super().__init__(folder, key, np.ones(key.rows, dtype=np.int64), precision)

    def compute(self, model: Any, index: np.ndarray, tokens: Tensor, padded: bool) -> Tensor:
        return sentence_representation(model.encoder, tokens, kind=self.key.kind, padded=padded)

    def rows(self, index: np.ndarray) -> np.ndarray | None:
        """Rows of some examples, n x w; None as long as the cache is not complete."""
        rows = self.opened()
        return None if rows is None else rows[index].astype(np.float32)


def write_zeros(path: str, dtype: str, shape: tuple) -> None:
    """An .npy file of zeros whose room is taken now: a full disk is an error here and not a crash at a later page."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    left = int(np.prod(shape)) * np.dtype(dtype).itemsize
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.flush()
        os.posix_fallocate(file.fileno(), file.tell(), left)


def fill_cache(
    cache: Any, model: Any, tokens_of: Callable[[np.ndarray], Tensor], sizes: np.ndarray, split: str
) -> None:
    """Compute missing rows in large batches of similar length, without dropout or gradient, in exact float32 products.

    What is there is opened here, so that it is compared with its checksum once, not by each data loader process. There
    is nothing to do for a ``cache`` of another kind, or None. ``tokens_of``: n example numbers -> n x T tokens, padded,
    as the backbone reads them; ``sizes``: N, tokens of each example. Raise InputError as ``RowCache`` does, and where a
    batch does not fit into memory; ModelLost as ``check_backbone``.
    """
    if not isinstance(cache, RowCache):
        return
    if cache.complete:
        return cache.open()
    device, pad = next(model.encoder.parameters()).device, model.encoder.dictionary.pad()
    bar = tqdm(total=len(sizes), desc=f"{cache.what} of {split}", unit=" examples", disable=None, leave=False)

    def encode(index: np.ndarray) -> Tensor:
        tokens = tokens_of(index)
        bar.update(len(index))
        with refuse_batch(tokens, WITHOUT_GPU, f"{cache.option}, split {split}: "):
            rows = cache.compute(model, index, tokens.to(device), bool(tokens.eq(pad).any()))
        model.check_backbone()
        return rows

    # also where the process allows coarser products (TF32)
    allowed = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with bar, in_mode(model.encoder, False), torch.no_grad():
            cache.fill(encode, length_sorted_batches(sizes, TOKENS_AT_A_TIME))
    finally:
        torch.set_float32_matmul_precision(allowed)
    logger.info(f"split {split}: {cache.what} of {len(sizes):,} examples in {cache.path('npy')}")


def length_sorted_batches(sizes: np.ndarray, max_tokens: int) -> Iterator[np.ndarray]:
    """All example numbers, longest first (so that memory does not run out later), padded to at most ``max_tokens``."""
    order = np.argsort(-sizes, kind="stable")
    start = 0
    while start < len(order):
        count = max(1, max_tokens // max(1, int(sizes[order[start]])))
        yield order[start : start + count]
        start += count
