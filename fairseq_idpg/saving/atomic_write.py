"""Write files whole or not at all: what replaces fairseq's own copies and saves."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import torch
from fairseq.file_io import PathManager

from preprocess.writing import new_file

from ..errors import InputError
from .checksum import with_progress_checksums
from .tensors import FINGERPRINT


def copy_whole(theirs: Callable, src_path: str, dst_path: str, overwrite: bool = False) -> Any:
    """Copy as fairseq's ``PathManager.copy`` does."""
    if PathManager.path_requires_pathmanager(dst_path) or PathManager.path_requires_pathmanager(src_path):
        return theirs(src_path, dst_path, overwrite=overwrite)

    def copy(file: BinaryIO) -> None:
        with open(src_path, "rb") as original:
            shutil.copyfileobj(original, file, 2**20)

    _write_whole(dst_path, copy)
    return True


def save_whole(theirs: Callable, obj: Any, filename: str, async_write: bool = False) -> None:
    """Save as fairseq's ``torch_persistent_save`` does, with checksums of the progress of a training of ours."""
    weights = obj.get("model") if isinstance(obj, dict) else None
    state = with_progress_checksums(obj) if isinstance(weights, dict) and FINGERPRINT in weights else obj
    if async_write or not PathManager.supports_rename(filename):
        return theirs(state, filename, async_write=async_write)
    _write_whole(filename, lambda file: torch.save(state, file))


def _write_whole(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Call ``write`` on a new file that then takes the place of ``path``.

    Raises:
        InputError: the disk is full, or the folder cannot be written to; the old file is intact.
    """
    try:
        with new_file(Path(path)) as work, open(work, "wb") as file:
            write(file)
    except (OSError, RuntimeError) as error:
        reason = error.__context__ if isinstance(error, RuntimeError) else error  # torch makes a RuntimeError of it
        if not isinstance(reason, OSError):
            raise
        raise InputError(
            f"{path} could not be written ({reason.strerror or reason}): what stood there before is intact; make room "
            "or give another --save-dir, and the same command goes on"
        ) from None


def leftovers(folder: str) -> Iterator[Path]:
    """Yield what savings leave that were cut short: ours, and those of fairseq itself."""
    for name in ("checkpoint", "crash"):
        yield from Path(folder).glob(f".{name}*.pt.*.pt")
        yield from Path(folder).glob(f"{name}*.pt.tmp")
