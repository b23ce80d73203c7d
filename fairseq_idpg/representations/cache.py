"""Compute what the frozen backbone makes of every example of a split once, and keep it on disk.

Rows are M(x), as the paper suggests, or the states of all tokens below a layer, see ``states``. Without dropout they
depend only on the frozen backbone, its precision and the tokens. These name the file, so a run with another backbone,
precision or text never reads it. Tasks, seeds and methods that read the same tokens share it.

    DIR/KEY.npy     rows, example after example; the file gets this name when the last row is written
    DIR/KEY.json    what it was made from, and the SHA-256 of KEY.npy, which opening compares
"""

import hashlib
import json
import logging
import os
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
from preprocess.writing import locked, new_file, write_text

from ..backbone.encoder import in_mode
from ..backbone.weights import ENCODER, GEOMETRY
from ..errors import InputError
from ..out_of_memory import WITHOUT_GPU, refuse_batch
from ..saving.backbone_file import weights_digest
from .kinds import sentence_representation

logger = logging.getLogger(__name__)
TOKENS_AT_A_TIME = 8192
NO_CACHES = {"representation_cache": None, "state_cache": None}  # for a checkpoint that is used elsewhere
STORED_AS = {"bfloat16": "int16"}  # numpy lacks bfloat16: its bits are stored


@dataclass(frozen=True)
class CacheKey:
    """All that the rows of a file depend on; it gives the file its name.

    Rows are computed in the precision of the backbone's weights: float32 for runs in float32 and with --amp, half
    precision for --fp16 and --bf16. A run without a cache computes M(x) in batches of other shapes, so that its numbers
    differ by rounding; with --amp also because training steps compute M(x) partly in half precision.
    """

    backbone: str  # SHA-256 of its tensors and of how they are read, see ``cache_key``
    tokens: str  # SHA-256 of the token rows that the backbone reads
    kind: str  # the --representation, or the layer that states enter
    rows: int  # N; of states all tokens
    width: int  # w; of states d
    dtype: str  # of the numbers in the file: float32, float16 or bfloat16
    precision: str  # in which the backbone computed them: one of these
    format: int = 2

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
        """Return the SHA-256 of what determines the token rows that the backbone reads."""
        files = []
        for part in self.inputs:
            more = sorted(Path(self.data, part).glob(f"{self.split}[0-9]*.bin")) if self.combine else []
            files += [Path(self.data, part, f"{self.split}.bin"), *more]
        parts = [sha256(file).encode() for file in files]
        parts += [part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode() for part in self.arrangement]
        return digest_of_parts(*parts)


def digest_of_parts(*parts: bytes) -> str:
    """Return the SHA-256 of some bytes, each part with its length so that parts cannot run into each other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def precision_of(model: Any) -> str:
    """Return ``float32``, ``float16`` or ``bfloat16``: what the backbone's weights are at the moment."""
    return str(next(model.encoder.parameters()).dtype).removeprefix("torch.")


def cache_key(model: Any, text: SplitText, kind: str, rows: int, dtype: str) -> CacheKey:
    """Return what the rows depend on that the backbone of ``model`` makes of a split."""
    # The digest of tensors does not tell heads, activation and eps. An option of a command line is an enum, so ``str``.
    sizes = ", ".join(str(getattr(model.args, name)) for name in GEOMETRY)
    digest = model.backbone_digest
    if model.args.save_full_model:  # the weights are its checkpoint's, which --fp16 has rounded; the digest is a file's
        digest = weights_digest(model.encoder.state_dict(prefix=ENCODER), model.parts_read)
    backbone = digest_of_parts(digest.encode(), f"[{sizes}]".encode())
    width = model.args.encoder_embed_dim
    return CacheKey(backbone, text.digest(), kind, rows, width, dtype, precision=precision_of(model))


class RowCache:
    """Rows of a split's N examples, ``lengths`` of each. Pickles without them: other processes open the file."""

    option = what = ""  # the option that names the folder, and what the rows are, for messages
    exact = ""  # the value of ``option``-dtype with which no number is rounded
    unrounded = False  # the file has the backbone's own precision

    def __init__(self, folder: str, key: CacheKey, lengths: np.ndarray):
        self.folder = os.path.abspath(folder)
        self.key = key
        # N + 1: example i has the rows from ``starts[i]`` to ``starts[i + 1]``
        self.starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self._rows: np.ndarray | None = None
        self._compared = False  # with its checksum: once, also for data loader processes

    def __getstate__(self):
        return {**self.__dict__, "_rows": None}

    def use_precision(self, precision: str) -> None:
        """Switch to the rows for this precision: fairseq makes a model half precision after it has loaded data."""
        key = replace(self.key, precision=precision, dtype=precision if self.unrounded else self.key.dtype)
        if key != self.key:
            self.key, self._rows, self._compared = key, None, False

    def path(self, ending: str) -> str:
        return os.path.join(self.folder, f"{self.key.name}.{ending}")

    @property
    def complete(self) -> bool:
        return os.path.exists(self.path("npy"))

    def opened(self) -> np.ndarray | None:
        """Return all rows, or None while some are missing. Raise InputError for damaged rows, or rows of other text."""
        if self._rows is not None or not self.complete:
            return self._rows
        path = self.path("npy")
        try:
            with open(regular(self.path("json")), encoding="utf-8") as file:
                made_from = json.load(file)
            checksum = made_from["sha256"] if self._compared else sha256(Path(path))
            if made_from != {**asdict(self.key), "sha256": checksum}:
                raise ValueError("its checksum differs, or it was made from something else")
            self._rows = open_array(path)
        except (*UNREADABLE, LookupError, RecursionError) as error:
            raise InputError(f"{self.option}: {path} is damaged ({error}): remove it, it is made again") from None
        self._compared = True
        return self._rows

    def compute(self, model: Any, index: np.ndarray, tokens: Tensor, padded: bool) -> Tensor:
        """Return the rows of some examples, one after the other, from n x T tokens, ``padded`` or without pads."""
        raise NotImplementedError

    def fill(self, encode: Callable[[np.ndarray], Tensor], batches: Iterator[np.ndarray]) -> None:
        """Compute the rows of an incomplete cache. One process does so; others wait, and then find the rows complete.

        ``encode``: n example numbers -> their rows, one example after the other, each w wide; ``batches``: all example
        numbers, as they are best computed. Raise InputError where the folder cannot be written.
        """
        key = self.key
        try:
            os.makedirs(self.folder, exist_ok=True)
            with locked(Path(self.path("lock"))):
                if self.complete:
                    return
                with new_file(Path(self.path("npy"))) as work:
                    rows = write_zeros(work, STORED_AS.get(key.dtype, key.dtype), (key.rows, key.width))
                    for batch in batches:
                        numbers = np.concatenate([np.arange(self.starts[i], self.starts[i + 1]) for i in batch])
                        rows[numbers] = self._finite(encode(batch), batch)
                    rows.flush()
                    made_from = {**asdict(key), "sha256": sha256(work)}
                    write_text(Path(self.path("json")), json.dumps(made_from, indent=1))
                self._compared = True
        except OSError as error:
            raise InputError(
                f"{self.option} {self.folder} cannot be written ({error.strerror or error}): name a folder "
                "with room that you may write to"
            ) from None

    def _finite(self, rows: Tensor, index: np.ndarray) -> np.ndarray:
        """Return rows of some examples as they are stored; raise InputError for numbers that are not finite."""
        stored = rows.detach().cpu().to(getattr(torch, self.key.dtype))
        bad = ~stored.isfinite().all(1).numpy()
        if bad.any():
            example = np.repeat(index, self.starts[index + 1] - self.starts[index])[bad][0]
            narrow = self.key.dtype == "float16" and self.key.precision != "float16"
            wider = f" or give {self.option}-dtype {self.exact}" if narrow else ""
            raise InputError(
                f"{self.option}: not finite: {self.what} of example {example + 1}: take an undamaged --backbone{wider}"
            )
        return stored.view(torch.int16).numpy() if self.key.dtype == "bfloat16" else stored.numpy()


class RepresentationCache(RowCache):
    """M(x) of the examples of a split, a row each."""

    option, what, exact = "--representation-cache", "M(x)", "float32"

    def __init__(self, folder: str, key: CacheKey):
        super().__init__(folder, key, np.ones(key.rows, dtype=np.int64))

    def compute(self, model: Any, index: np.ndarray, tokens: Tensor, padded: bool) -> Tensor:
        return sentence_representation(model.encoder, tokens, kind=self.key.kind, padded=padded)

    def rows(self, index: np.ndarray) -> np.ndarray | None:
        """Return the rows of some examples, n x w; None as long as the cache is not complete."""
        rows = self.opened()
        return None if rows is None else rows[index].astype(np.float32)


def write_zeros(path: Path, dtype: str, shape: tuple) -> np.memmap:
    """Map a new .npy file of zeros, whose room is taken now: a full disk is an error here, not a crash later."""
    rows = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), shape)
    with open(path, "r+b") as file:
        os.posix_fallocate(file.fileno(), 0, os.path.getsize(path))
    return rows


def fill_cache(
    cache: Any, model: Any, tokens_of: Callable[[np.ndarray], Tensor], sizes: np.ndarray, split: str
) -> None:
    """Compute missing rows in large batches of similar length, without dropout or gradient, in exact float32 products.

    A complete file is compared with its checksum here, not by each data loader process. ``tokens_of``: n example
    numbers -> n x T tokens, padded, as the backbone reads them; ``sizes``: N, tokens of each example.
    """
    if not isinstance(cache, RowCache):
        return
    cache.use_precision(precision_of(model))
    if cache.opened() is not None:
        return
    rows, width, number = cache.key.rows, cache.key.width, getattr(torch, cache.key.dtype).itemsize
    logger.info(
        f"{cache.option} {cache.folder}: {cache.what}, split {split}: {len(sizes):,} examples, "
        f"{rows:,} rows x {width} x {number} bytes = {rows * width * number / 1e9:.3f} GB"
    )
    device, pad = next(model.encoder.parameters()).device, model.encoder.dictionary.pad()
    bar = tqdm(total=len(sizes), desc=f"{cache.what} of {split}", unit=" examples", disable=None, leave=False)

    def encode(index: np.ndarray) -> Tensor:
        tokens = tokens_of(index)
        bar.update(len(index))
        with refuse_batch(tokens, WITHOUT_GPU, f"{cache.option}, split {split}: "):
            rows = cache.compute(model, index, tokens.to(device), bool(tokens.eq(pad).any()))
        model.check_backbone()
        return rows

    # Exact products, also where the process allows coarser ones (TF32).
    allowed = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with bar, in_mode(model.encoder, False), torch.no_grad():
            cache.fill(encode, length_sorted_batches(sizes, TOKENS_AT_A_TIME))
    finally:
        torch.set_float32_matmul_precision(allowed)
    logger.info(f"split {split}: {cache.what} of {len(sizes):,} examples in {cache.path('npy')}")


def length_sorted_batches(sizes: np.ndarray, max_tokens: int) -> Iterator[np.ndarray]:
    """Yield all example numbers, longest first so that memory runs out at once or never, ``max_tokens`` with pads."""
    order = np.argsort(-sizes, kind="stable")
    start = 0
    while start < len(order):
        count = max(1, max_tokens // max(1, int(sizes[order[start]])))
        yield order[start : start + count]
        start += count
