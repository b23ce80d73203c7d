"""Reading a fairseq RoBERTa checkpoint as the frozen backbone, and notes of what was found out about such files.

To see that a backbone is whole and finite, and to make the SHA-256 of its tensors, takes seconds at the size of
RoBERTa-large. A note of both spares every later process that. It holds only for the file that was read: of the same
path, inode, size and times of last change. A note that does not fit its own checksum is not used.

The notes are in ``$XDG_CACHE_HOME/fairseq_idpg/backbones``, by default below ``~/.cache``. The environment variable
FAIRSEQ_IDPG_CACHE names another folder than ``fairseq_idpg``; ``off``: notes are neither made nor read.
"""

import contextlib
import hashlib
import json
import os
import stat
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fairseq.dataclass.configs import CheckpointConfig
from torch import Tensor

from preprocess.checksums import regular
from preprocess.writing import write_text

from ..backbone.weights import ENCODER, GEOMETRY, TIED, VERSION, Backbone
from ..errors import InputError
from .configuration import check_is_roberta, typed
from .reading import read_file
from .tensors import is_ours, tensors_digest
from .torch_files import is_archive

TYPES = {
    **dict.fromkeys(GEOMETRY, int | None),
    "activation_fn": str | None,
    "layer_norm_eps": float | None,
    "max_positions": int | None,
    "backbone": str | None,
}
DECODER = "decoder."  # the encoder's name in the released archives
NO_BACKBONE = CheckpointConfig.restore_file  # fairseq's default --restore-file: no backbone was named
VARIABLE, OFF = "FAIRSEQ_IDPG_CACHE", "off"
NOTES_VERSION = 4  # raised when what is checked of a file, or what its digests are of, changes
SETTLED = 2.0  # seconds: clocks of file systems are coarse, and a later change could have the same time
LARGEST_NOTE = 2**16  # bytes

# --- a backbone --------------------------------------------------------------------------------------


def weights_digest(weights: dict[str, Tensor], parts: tuple[str, ...]) -> str:
    """SHA-256 of those of RoBERTa's tensors whose names begin with one of ``parts``: names, types, shapes and values.

    The same weights in another file, of another version of torch or with other options or heads beside them, are the
    same backbone; rounded to half precision they are another.
    """
    left_out = (VERSION, TIED)
    return tensors_digest({n: v for n, v in weights.items() if n.startswith(parts) and n not in left_out})


def backbone_path(named: str) -> str:
    """Return the absolute path of --backbone; raise InputError where none is named, or there is no such file."""
    none = not named or named == NO_BACKBONE
    if none or not os.path.isfile(named):
        raise InputError(
            f"--backbone {'is missing' if none else f'{named} is not a file'}: give the path of a fairseq RoBERTa's "
            "model.pt, which checkpoints/README.md says how to get or convert (for a saved checkpoint whose backbone "
            "has moved: --model-overrides \"{'backbone': 'NEW/model.pt'}\")"
        )
    return os.path.abspath(named)


def read_checkpoint(path: str, option: str, **how: bool) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return (model options of any type, tensors) of a fairseq RoBERTa, this package's or fairseq's own.

    ``option`` named the file, for errors; ``how``, and what is refused: see ``read_file`` and ``check_is_roberta``.
    """
    state = read_file(path, option, **how)
    return check_is_roberta(state, f"{option} {path}"), state["model"]


def read_backbone(path: str) -> Backbone:
    """Read the backbone's checkpoint, whose tensors stay in the file until they are needed. A file that is known is not
    looked through again. Raise InputError as ``read_file`` does, and for what was trained alone.
    """
    note, opened = load_note(path), os.stat(path) if os.path.exists(path) else None
    args, weights = read_checkpoint(path, "--backbone", mapped=True, checked=note is not None and bool(note.digests))
    if note is not None and note.file != stat_file(path):  # it was replaced while it was read
        note, opened = None, os.stat(path)
        args, weights = read_checkpoint(path, "--backbone", mapped=True)
    args = typed(args, TYPES, f"--backbone {path}")
    if is_ours(weights) and not any("sentence_encoder.embed_tokens" in name for name in weights):
        raise InputError(
            f"--backbone {path} holds prompts only; it was trained on the backbone {args.get('backbone')}: give that "
            "file"
        )
    weights = names_of_today(weights)
    return Backbone(path, args, weights, partial(known_digest, note, weights), opened if is_archive(path) else None)


def names_of_today(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """RoBERTa's tensors under their present names, as fairseq renames and splits those of its older versions."""
    found = {}
    for name, value in weights.items():
        name = ENCODER + name[len(DECODER) :] if name.startswith(DECODER) else name
        name = name.replace(".emb_layer_norm.", ".layernorm_embedding.")
        joined, _, kind = name.rpartition(".in_proj_")
        if kind in ("weight", "bias") and value.dim() and len(value) % 3 == 0:
            found.update({f"{joined}.{part}_proj.{kind}": third for part, third in zip("qkv", value.chunk(3))})
        else:
            found[name] = value
    return found


# --- what is known of its file -----------------------------------------------------------------------


@dataclass
class Note:
    """What is known of a file at rest."""

    place: Path  # where it is kept
    file: list[Any]  # see ``stat_file``
    digests: dict[str, str]  # of its tensors, by the names that they are of; empty: nobody has looked through the file

    def save(self, of_what: str, digest: str) -> None:
        """Note a digest, unless the file has changed meanwhile or is too new to tell."""
        *_, changed, entry_changed = self.file
        settled = time.time_ns() - max(changed, entry_changed) >= SETTLED * 1e9
        if settled and self.file == stat_file(self.file[0]):
            self.digests[of_what] = digest
            with contextlib.suppress(OSError, InputError):
                write_text(self.place, signed(json.dumps([self.file, self.digests])))


def known_digest(note: Note | None, weights: dict[str, Tensor], parts: tuple[str, ...]) -> str:
    """Return ``weights_digest``, which is not made again for a file that is known."""
    of_what = " ".join(parts)
    found = None if note is None else note.digests.get(of_what)
    if found is None:
        found = weights_digest(weights, parts)
        if note is not None:
            note.save(of_what, found)
    return found


def load_note(path: str) -> Note | None:
    """Return what is known of a file; None where there are no notes, or no such file."""
    folder, file = notes_folder(), stat_file(path)
    if folder is None or file is None:
        return None
    place = folder / f"{hashlib.sha256(os.fsencode(file[0])).hexdigest()[:32]}.note"
    with contextlib.suppress(OSError, ValueError), open(regular(place), "rb") as noted:
        text = noted.read(LARGEST_NOTE).decode()
        content = text.partition(" ")[2]
        if text == signed(content) and json.loads(content)[0] == file:
            return Note(place, file, json.loads(content)[1])
    return Note(place, file, {})


def stat_file(path: str) -> list[Any] | None:
    """Return [path with links followed, inode, size, times of last change of contents and entry]; None: no file."""
    place = os.path.realpath(path)
    try:
        found = os.stat(place)
    except OSError:
        return None
    times = found.st_mtime_ns, found.st_ctime_ns
    return [place, found.st_ino, found.st_size, *times] if stat.S_ISREG(found.st_mode) else None


def notes_folder() -> Path | None:
    """Return where notes are; None: they are switched off, or there is no home."""
    named = os.environ.get(VARIABLE, "")
    if named:
        return None if named == OFF else Path(named).absolute() / "backbones"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    with contextlib.suppress(RuntimeError):
        base = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
        return base / "fairseq_idpg" / "backbones"
    return None


def signed(content: str) -> str:
    """Return a note: its checksum, which covers the version too, and what it says."""
    return f"{hashlib.sha256(f'{NOTES_VERSION} {content}'.encode()).hexdigest()} {content}"
