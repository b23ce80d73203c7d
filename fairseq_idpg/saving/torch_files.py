"""Files of ``torch.save``: written whole or not at all, and read as tensors and plain values, no larger than the file.

torch's allow-list runs no code of a stranger's file, but it takes ``bytearray(3e9)``, ``_codecs.encode`` with any codec
and numpy's types of any size. So ``Preview`` looks a pickle through first, and knows only what a checkpoint needs.
"""

import argparse
import io
import math
import os
import pickle
import pickletools
import shutil
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import torch
from fairseq.file_io import PathManager

from preprocess.checksums import regular
from preprocess.readers import is_text
from preprocess.writing import new_file

from ..errors import InputError
from .tensors import FINGERPRINT, with_progress_checksums

ARCHIVE = b"PK\x03\x04"
VIEWS = 4  # the tensors of a file may have VIEWS times its bytes, since some share their numbers
NUMBER_BYTES = {
    **{"Byte": 1, "Char": 1, "Bool": 1, "Short": 2, "Half": 2, "BFloat16": 2},
    **{"Int": 4, "Float": 4, "Long": 8, "Double": 8},
}
OPCODES = {ord(opcode.code) for opcode in pickletools.opcodes if opcode.proto <= 2}  # which torch writes and reads
# A file of torch before 1.6 holds five pickles: a magic number, a version, the system, what was saved, and the names of
# its storages.
LEGACY_SAVED, LEGACY_PICKLES = 3, 5


class Damaged(Exception):
    """Why a file cannot be read, in a few words."""


class Float64:
    """numpy's type float64, the only type of numpy's numbers that fairseq saves."""

    def __init__(self, name: str, *flags: bool):
        if name != "f8":
            raise Damaged("it holds a number of numpy other than float64")

    def __setstate__(self, state: Any) -> None:
        if state[2:] != (None, None, None, -1, -1, 0):  # a type made of several others
            raise Damaged("it holds a number of numpy other than float64")


def encode(text: str, codec: str) -> bytes:
    """Return the bytes that Python pickles as text; other codecs may take endless time."""
    if codec != "latin1":
        raise Damaged(f"it holds text in the codec {codec:.20}")
    return text.encode("latin1")


class Preview(pickle._Unpickler):  # in Python: C's takes memory before it reads the bytes
    """Reads a pickle without making its tensors, which together may have ``most`` bytes."""

    dispatch = {code: step for code, step in pickle._Unpickler.dispatch.items() if code in OPCODES}

    def __init__(self, file: Any, most: int):
        super().__init__(file, encoding="utf-8")
        self.left = most
        self.known = {
            "argparse.Namespace": argparse.Namespace,
            "collections.OrderedDict": OrderedDict,
            "_codecs.encode": encode,
            "numpy.dtype": Float64,
            "numpy.core.multiarray.scalar": lambda kind, data: None,
            "numpy._core.multiarray.scalar": lambda kind, data: None,
            "torch._utils._rebuild_tensor": self.tensor,
            "torch._utils._rebuild_tensor_v2": self.tensor,
            "torch._utils._rebuild_parameter": lambda tensor, *others: tensor,
            **{f"torch.{kind}Storage": size for kind, size in NUMBER_BYTES.items()},
        }

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full not in self.known:
            raise Damaged(f"it holds {full:.80}, which is not data")
        return self.known[full]

    def persistent_load(self, pid: Any) -> int:
        """Return, for a storage, how many bytes each of its numbers has."""
        kind, number_bytes, *_ = pid
        if kind != "storage":
            raise Damaged(f"it holds a {kind!s:.20}, which is not data")
        return number_bytes

    def tensor(self, number_bytes: int, offset: int, shape: Sequence[int], *others: Any) -> None:
        self.left -= number_bytes * math.prod(shape)
        if self.left < 0 or min(shape, default=0) < 0:
            raise Damaged("it holds tensors that are larger than the file")


def read_saved(path: str, mapped: bool = False, checked: bool = False) -> Any:
    """Return what a file holds, on the CPU, see ``read_file``; raise Damaged for anything but data of its size."""
    try:
        archive = is_archive(path)
        if archive and not checked:
            _check_records(path)
        if not checked:
            preview(path)
        # torch maps only files whose names are text. Its messages are not shown: they advise to allow all code.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped and archive and is_text(path))
    except Damaged:
        raise
    except OSError as error:
        raise Damaged(error.strerror or "it cannot be read") from None
    except Exception:  # bytes that are not a pickle end in errors of every kind
        raise Damaged("it is damaged or of another kind") from None


def is_archive(path: str) -> bool:
    """Return whether a file is a zip archive, as torch saves since version 1.6; raise OSError if it is not there."""
    with open(regular(path), "rb") as file:
        return file.read(len(ARCHIVE)) == ARCHIVE


def _check_records(path: str) -> None:
    """Raise Damaged unless the sizes and the CRC-32 of an archive's records are right, which torch does not check."""
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
        # torch packs no record, and would map packed bytes as numbers.
        packed = any(record.file_size != record.compress_size for record in records)
        if packed or sum(record.file_size for record in records) > os.path.getsize(path):
            raise Damaged("its records are packed, or say that they are larger than the file")
        damaged = archive.testzip()
    if damaged is not None:
        raise Damaged(f"it is damaged: the bytes of {damaged} do not fit their CRC-32")


def preview(path: str) -> Any:
    """Return what a file holds, with None for each tensor; raise an exception of any kind for other files."""
    most = VIEWS * os.path.getsize(path)
    with open(regular(path), "rb") as file:
        if is_archive(path):
            return Preview(io.BytesIO(torch._C.PyTorchFileReader(file).get_record("data.pkl")), most).load()
        return [Preview(file, most).load() for _ in range(LEGACY_PICKLES)][LEGACY_SAVED]


def copy_whole(theirs: Callable, src_path: str, dst_path: str, overwrite: bool = False) -> Any:
    """Copy as fairseq's ``PathManager.copy`` does."""
    if PathManager.path_requires_pathmanager(dst_path) or PathManager.path_requires_pathmanager(src_path):
        return theirs(src_path, dst_path, overwrite=overwrite)
    with open(src_path, "rb") as original:
        _write_whole(dst_path, lambda file: shutil.copyfileobj(original, file, 2**20))
    return True


def save_whole(theirs: Callable, obj: Any, filename: str, async_write: bool = False) -> None:
    """Save as fairseq's ``torch_persistent_save`` does, with checksums of the progress of a training of ours."""
    weights = obj.get("model") if isinstance(obj, dict) else None
    state = with_progress_checksums(obj) if isinstance(weights, dict) and FINGERPRINT in weights else obj
    if async_write or not PathManager.supports_rename(filename):
        return theirs(state, filename, async_write=async_write)
    _write_whole(filename, lambda file: torch.save(state, file))


def _write_whole(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Call ``write`` on a new file that then takes the name ``path``; raise InputError where that fails."""
    try:
        with new_file(Path(path)) as work, open(work, "wb") as file:
            write(file)
    except (OSError, RuntimeError) as error:
        reason = error.__context__ if isinstance(error, RuntimeError) else error  # torch wraps the OSError
        if not isinstance(reason, OSError):
            raise
        raise InputError(
            f"{path} could not be written ({reason.strerror or reason}), and the earlier file is intact: make room or "
            "give another --save-dir, and the same command goes on"
        ) from None


def leftovers(folder: str) -> Iterator[Path]:
    """Yield the files that unfinished savings left: ours, and those of fairseq itself."""
    for name in ("checkpoint", "crash"):
        yield from Path(folder).glob(f".{name}*.pt.*.pt")
        yield from Path(folder).glob(f"{name}*.pt.tmp")
