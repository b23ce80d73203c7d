"""SHA-256 of files, and ``DATA/sha256.txt``: those of a binarized folder, in the form of the command sha256sum.

A flipped bit can leave a folder that reads well and says something else; only a record of its bytes tells.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from .errors import InputError

RECORD = "sha256.txt"
FOLDER_FACTS = "preprocess.json"
LINE = re.compile(r"([0-9a-f]{64})  ([^\0\n]+)")
COVERED = (
    *(FOLDER_FACTS, "*/*.bin", "*/*.idx", "*/*.label", "*/dict.txt"),
    *("number/*.txt", "left_out/*.txt", "question/*.tsv"),
)
TEXT_AND_LABELS = {
    **dict.fromkeys(("input0", "input1", "label"), ("*.bin", "*.label", "dict.txt")),
    "question": ("*.tsv",),
}
WORD_VECTORS = {"glove": ("*.npy",)}
REMEDY = f"preprocess it again, or remove {RECORD} if you changed the folder yourself"


def regular(path: Path | str) -> Path | str:
    """Return the path of a file for ``open``, which would wait for the other end of a pipe.

    Raises:
        OSError: there is something else than a file, or nothing.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path


def sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with open(regular(path), "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def content_digest(folder: Path, word_vectors: bool = False) -> str:
    """SHA-256 of the texts, labels and questions in a binarized folder, and of the word vectors there."""
    parts = {**TEXT_AND_LABELS, **(WORD_VECTORS if word_vectors else {})}
    files = sorted(file for part, patterns in parts.items() for name in patterns for file in (folder / part).glob(name))
    digests = [f"{file.parent.name}/{file.name} {sha256(file)}" for file in files]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def write_checksums(folder: Path) -> None:
    """Record what ``folder`` holds: texts, labels, numbers and questions; word vectors have a record of their own."""
    files = sorted(file for pattern in COVERED for file in folder.glob(pattern))
    lines = [f"{sha256(file)}  {file.relative_to(folder).as_posix()}\n" for file in files]
    (folder / RECORD).write_text("".join(lines), encoding="utf-8")


def read_checksums(folder: Path) -> dict[str, str] | None:
    """{"input0/train.bin": digest}; None for a folder without a record, as fairseq-preprocess makes them.

    Raises:
        InputError: the record is damaged.
    """
    path = folder / RECORD
    if not path.is_file():
        return None
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    found = [LINE.fullmatch(line) for line in lines]
    if not found or None in found:
        raise InputError(f"{path} is not 'checksum  file' in each line: {REMEDY}")
    return {match[2]: match[1] for match in found if match}


def compare(folder: Path, files: Iterable[str], record: dict[str, str] | None) -> None:
    """Raise InputError unless ``files`` are those that ``record`` names and hold what it says."""
    if record is None:
        return
    for name in files:
        path = folder / name
        found = sha256(path) if path.is_file() else None
        if found is None or record.get(name) != found:
            what = "is missing" if found is None else "is not what preprocess wrote"
            raise InputError(f"{path} {what}: {REMEDY}")
