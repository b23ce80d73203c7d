"""Reading what ``torch.save`` wrote, which may be a stranger's: tensors and plain values, no larger than their file.

torch's allow-list runs no code, but it takes ``bytearray(3e9)``, ``_codecs.encode`` with any codec and numpy's types of
any size. So a pickle is looked through first: each name in it stands for what a checkpoint needs of it, and for
nothing else.
"""

import argparse
import io
import math
import os
import pickle
import pickletools
import re
import zipfile
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch

from preprocess.checksums import regular
from preprocess.readers import is_text

ARCHIVE = b"PK\x03\x04"
VIEWS = 4  # the tensors of a file may be this many times larger than the file: some share their numbers
NUMBER_BYTES = {
    **{"Byte": 1, "Char": 1, "Bool": 1, "Short": 2, "Half": 2, "BFloat16": 2},
    **{"Int": 4, "Float": 4, "Long": 8, "Double": 8},
}
STORAGE = re.compile(r"torch\.([A-Za-z0-9]+)Storage")
OPCODES = {ord(opcode.code) for opcode in pickletools.opcodes if opcode.proto <= 2}  # which torch writes and reads
LEGACY_SAVED, LEGACY_PICKLES = 3, 5  # a magic number, a version, the system, what was saved, the names of its storages


class Damaged(Exception):
    """Why a file cannot be read, in a few words."""


class NumpyType:
    """The type float64, the only one of numpy's numbers that fairseq saves."""

    def __init__(self, name: str, align: bool, copy: bool):
        if name != "f8":
            raise Damaged("it holds a number of numpy that is no float64")

    def __setstate__(self, state: Any) -> None:
        if state[2:] != (None, None, None, -1, -1, 0):
            raise Damaged("it holds a number of numpy that is no float64")


def encode(text: str, codec: str) -> bytes:
    """Return the bytes that Python pickles as text; other codecs may take time without end."""
    if codec != "latin1":
        raise Damaged(f"it holds text in the codec {codec:.20}")
    return text.encode("latin1")


def scalar(kind: NumpyType, data: bytes) -> None:
    """Stand for a number of numpy."""


class Preview(pickle._Unpickler):  # the one in Python, whose memory follows the file's
    """Reads a pickle without making its tensors.

    Args:
        most: bytes that all tensors together may have.
    """

    dispatch = {code: step for code, step in pickle._Unpickler.dispatch.items() if code in OPCODES}

    def __init__(self, file: Any, most: int):
        super().__init__(file, encoding="utf-8")
        self.left = most
        self.known = {
            "argparse.Namespace": argparse.Namespace,
            "collections.OrderedDict": OrderedDict,
            "_codecs.encode": encode,
            "numpy.dtype": NumpyType,
            **dict.fromkeys(("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"), scalar),
            **dict.fromkeys(("torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2"), self.tensor),
            "torch._utils._rebuild_parameter": lambda tensor, *others: tensor,
        }

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        storage = STORAGE.fullmatch(full)
        if storage and storage[1] in NUMBER_BYTES:
            return NUMBER_BYTES[storage[1]]
        if full not in self.known:
            raise Damaged(f"it holds {full:.80}, which is no data")
        return self.known[full]

    def persistent_load(self, pid: Any) -> int:
        """Give a storage as the bytes of each of its numbers."""
        kind, number_bytes, *_ = pid
        if kind != "storage":
            raise Damaged(f"it holds a {kind!s:.20}, which is no data")
        return number_bytes

    def tensor(self, number_bytes: int, offset: int, shape: Sequence[int], *others: Any) -> None:
        self.left -= number_bytes * math.prod(shape)
        if self.left < 0 or min(shape, default=0) < 0:
            raise Damaged("it holds tensors that are larger than the file")


def read_saved(path: str, mapped: bool = False, checked: bool = False) -> Any:
    """Return what a file holds, on the CPU.

    Args:
        mapped: whether the tensors of a zip archive are read from it when they are needed.
        checked: this very file was found whole before.

    Raises:
        Damaged: it cannot be read, is damaged, or would make something else than data of its own size.
    """
    try:
        regular(path)
        archive = is_archive(path)
        if archive and not checked:
            _check_records(path)
        if not checked:
            preview(path)
        # torch maps no file whose name is no text; its own messages advise to switch the allow-list off
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped and archive and is_text(path))
    except Damaged:
        raise
    except OSError as error:
        raise Damaged(error.strerror or "it cannot be read") from None
    except Exception:  # bytes that are no pickle end in errors of every kind
        raise Damaged("it is damaged or of another kind") from None


def is_archive(path: str) -> bool:
    """Return whether it is a file that begins as a zip archive does, which is what torch saves since version 1.6."""
    try:
        with open(regular(path), "rb") as file:
            return file.read(len(ARCHIVE)) == ARCHIVE
    except OSError:
        return False


def _check_records(path: str) -> None:
    """Compare the sizes and the CRC-32 of an archive's records, which torch does not."""
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
        packed = any(record.file_size != record.compress_size for record in records)
        if packed or sum(record.file_size for record in records) > os.path.getsize(path):
            raise Damaged("its records say that they are larger than the file")
        damaged = archive.testzip()
    if damaged is not None:
        raise Damaged(f"it is damaged: the bytes of {damaged} do not fit their CRC-32")


def preview(path: str) -> Any:
    """Return what a file holds, with None for each tensor.

    Raises:
        Exception: of any kind, where the file is damaged or would make something else than data of its own size.
    """
    most = VIEWS * os.path.getsize(path)
    with open(path, "rb") as file:
        if is_archive(path):
            return Preview(io.BytesIO(torch._C.PyTorchFileReader(file).get_record("data.pkl")), most).load()
        return [Preview(file, most).load() for _ in range(LEGACY_PICKLES)][LEGACY_SAVED]
