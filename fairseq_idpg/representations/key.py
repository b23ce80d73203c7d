"""What the files of cached rows are named by: everything that the rows depend on, and nothing else.

Rows are computed in the precision of the backbone's weights and kept apart by it, so they do not depend on who filled
the cache: float32 for runs in float32 and with --amp, half precision for --fp16 and --bf16. A run without a cache
computes the same M(x) in batches of other shapes, so that its numbers differ by rounding; with --amp also because its
training steps compute M(x) partly in half precision.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from preprocess.checksums import sha256

from ..backbone.loading import GEOMETRY

FORMAT = 2


@dataclass(frozen=True)
class CacheKey:
    """What rows depend on.

    Attributes:
        backbone: see ``backbone_key``.
        tokens: SHA-256 of the token rows that the backbone reads.
        kind: the --representation, or the layer that states enter.
        rows, width: N and w; of states all tokens and d.
        dtype: ``float32``, ``float16`` or ``bfloat16``, of the numbers in the file.
        precision: ``float32``, ``float16`` or ``bfloat16``, in which the backbone computed them.
    """

    backbone: str
    tokens: str
    kind: str
    rows: int
    width: int
    dtype: str
    precision: str
    format: int = FORMAT

    @property
    def name(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class SplitText:
    """The texts of a split: its files, and how the task joins, cuts and exchanges them.

    Attributes:
        data, split: the folder, and the split's name in it.
        inputs: input0, with pairs input1 too.
        combine: together with split1, split2 ..., as fairseq reads them.
        examples: in these files; every one of them ``copies`` times, as exchanged pairs are copies.
        arrangement: what else changes the tokens: plain values, and arrays of a number for each example.
    """

    data: str
    split: str
    inputs: Sequence[str]
    combine: bool
    examples: int
    copies: int
    arrangement: Sequence[Any]

    def digest(self) -> str:
        """Fingerprint of the token rows that the backbone reads."""
        files = []
        for part in self.inputs:
            more = sorted(Path(self.data, part).glob(f"{self.split}[0-9]*.bin")) if self.combine else []
            files += [Path(self.data, part, f"{self.split}.bin"), *more]
        parts = [sha256(file).encode() for file in files]
        parts += [part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode() for part in self.arrangement]
        return digest_of_parts(iter(parts))


def digest_of_parts(parts: Iterator[bytes]) -> str:
    """SHA-256 of some bytes, each part with its length so that parts cannot run into each other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def backbone_key(model: Any) -> str:
    """SHA-256 of the backbone's tensors and of how they are read: heads, activation and eps are in none of them."""
    sizes = ", ".join(str(getattr(model.args, name)) for name in GEOMETRY)  # a command line's choices are no strings
    return digest_of_parts(iter([model.backbone_digest.encode(), f"[{sizes}]".encode()]))


def precision_of(model: Any) -> str:
    """``float32``, ``float16`` or ``bfloat16``: what the backbone's weights are at the moment."""
    return str(next(model.encoder.parameters()).dtype).replace("torch.", "")
