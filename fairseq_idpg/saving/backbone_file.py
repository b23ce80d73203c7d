"""Reading a fairseq RoBERTa checkpoint as the frozen backbone, and notes about such files.

To check that a backbone is whole and finite, and to compute the SHA-256 of its tensors, takes seconds at the size of
RoBERTa-large. A note of both spares every later process that. It holds as long as path, inode, size and times of last
change are those of the file that was read. A note that does not fit its own checksum is not used.

The notes are in ``$XDG_CACHE_HOME/fairseq_idpg/backbones``, by default below ``~/.cache``. The environment variable
FAIRSEQ_IDPG_CACHE names another folder than ``fairseq_idpg``; with ``off`` notes are neither made nor read.
"""

import contextlib
import hashlib
import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

from fairseq.dataclass.configs import CheckpointConfig
from torch import Tensor

from preprocess.checksums import regular
from preprocess.writing import write_text

from ..backbone.weights import ENCODER, GEOMETRY, STACK, TIED, VERSION, Backbone
from ..errors import InputError
from .configuration import check_is_roberta, typed
from .reading import read_file
from .tensors import digest_of, has_digest, is_ours, tensors_digest
from .torch_files import is_archive

TYPES = {
    **dict.fromkeys(GEOMETRY, int | None),
    "activation_fn": str | None,
    "layer_norm_eps": float | None,
    "max_positions": int | None,
    "backbone": str | None,
    "source": dict[str, str | int] | None,  # of convert_hf.py: what transformers says of the model
}
DECODER = "decoder."  # the encoder's name in the released archives
NO_BACKBONE = CheckpointConfig.restore_file  # fairseq's default --restore-file: no backbone was named
VARIABLE, OFF = "FAIRSEQ_IDPG_CACHE", "off"
NOTES_VERSION = 4  # raised when what is checked of a file, or what its digests are of, changes
SETTLED = 2.0  # seconds: clocks of file systems are coarse, and a later change could have the same time
LARGEST_NOTE = 2**16  # bytes


def weights_digest(weights: dict[str, Tensor], parts: tuple[str, ...]) -> str:
    """Return the SHA-256 of RoBERTa's tensors whose names begin with one of ``parts``: names, types, shapes, values."""
    left_out = (VERSION, TIED)
    return tensors_digest({n: v for n, v in weights.items() if n.startswith(parts) and n not in left_out})


def backbone_path(named: str) -> str:
    """Return the absolute path of --backbone; raise InputError where it is missing."""
    none = not named or named == NO_BACKBONE
    if none or not os.path.isfile(named):
        raise InputError(
            f"--backbone {'is missing' if none else f'{named} is not a file'}: give the path of a fairseq RoBERTa's "
            "model.pt; checkpoints/README.md says how to get or convert one (for a saved checkpoint whose backbone "
            "has moved: --model-overrides \"{'backbone': 'NEW/model.pt'}\")"
        )
    return os.path.abspath(named)


def read_checkpoint(path: str, option: str, **how: bool) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return (options of any type, tensors) of a fairseq RoBERTa; errors and ``how`` as of ``read_file``."""
    state = read_file(path, option, **how)
    return check_is_roberta(state, f"{option} {path}"), state["model"]


def read_backbone(path: str) -> Backbone:
    """Read the backbone's checkpoint, whose tensors stay in the file until they are needed."""
    note = Note(path)
    args, weights = read_checkpoint(path, "--backbone", mapped=True, checked=bool(note.digests))
    if note.file != stat_file(path):  # it was replaced while it was read
        return read_backbone(path)
    args = typed(args, TYPES, f"--backbone {path}")
    if is_ours(weights) and not any("sentence_encoder.embed_tokens" in name for name in weights):
        raise InputError(
            f"--backbone {path} holds prompts only; it was trained on the backbone {args.get('backbone')}: give that "
            "file"
        )
    weights = names_of_today(weights)
    return Backbone(path, args, weights, partial(note.digest, weights), os.stat(path) if is_archive(path) else None)


def names_of_today(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return RoBERTa's tensors by their present names, as fairseq renames and splits those of its older versions."""
    renamed = {}
    for name, value in weights.items():
        name = ENCODER + name[len(DECODER) :] if name.startswith(DECODER) else name
        name = name.replace(".emb_layer_norm.", ".layernorm_embedding.")
        joined, _, kind = name.rpartition(".in_proj_")
        if kind in ("weight", "bias") and value.dim() and len(value) % 3 == 0:
            renamed.update({f"{joined}.{part}_proj.{kind}": third for part, third in zip("qkv", value.chunk(3))})
        else:
            renamed[name] = value
    return renamed


class Note:
    """SHA-256 of tensors in a backbone's file as it is now; empty until the file was looked through."""

    def __init__(self, path: str):
        self.file = stat_file(path)
        self.digests: dict[str, str] = {}  # by the beginnings of the tensors' names
        folder = notes_folder()
        name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]
        self.place = None if folder is None or self.file is None else folder / f"{name}.note"
        with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
            if self.place is not None:
                with open(regular(self.place), "rb") as noted:
                    checksum, file, digests = json.loads(noted.read(LARGEST_NOTE))
                if file == self.file and has_digest(checksum, digest_of, [NOTES_VERSION, file, digests]):
                    self.digests = digests

    def digest(self, weights: dict[str, Tensor], parts: tuple[str, ...] = (STACK,)) -> str:
        """Return ``weights_digest``, which is computed once for a file."""
        named = " ".join(parts)
        if named not in self.digests:
            self.digests[named] = weights_digest(weights, parts)
            self._save()
        return self.digests[named]

    def _save(self) -> None:
        """Write the note, unless the file has changed meanwhile or is too new to tell."""
        if self.place is None or self.file is None or self.file != stat_file(self.file[0]):
            return
        if time.time_ns() - max(self.file[-2:]) >= SETTLED * 1e9:
            checksum = digest_of([NOTES_VERSION, self.file, self.digests])
            with contextlib.suppress(OSError, InputError):
                write_text(self.place, json.dumps([checksum, self.file, self.digests]))


def stat_file(path: str) -> list[Any] | None:
    """Return [path with links followed, inode, size, times of last change of contents and entry]; None: no file."""
    place = os.path.realpath(path)
    if not os.path.isfile(place):
        return None
    status = os.stat(place)
    return [place, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def notes_folder() -> Path | None:
    """Return where notes are; None where they are switched off, or no home is known."""
    named = os.environ.get(VARIABLE, "")
    if named:
        return None if named == OFF else Path(named).absolute() / "backbones"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    with contextlib.suppress(RuntimeError):
        base = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
        return base / "fairseq_idpg" / "backbones"
    return None
