"""SHA-256 of files, and ``DATA/sha256.txt``: those of a binarized folder, in the form of the command sha256sum.

A folder with a flipped bit may read well and say something else; only checksums tell.
"""

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
DATA = ("*/*.bin", "*/*.label", "*/dict.txt", "question/*.tsv")
REMEDY = f"preprocess it again, or remove {RECORD} if you changed the folder yourself"


def regular(path: Path | str) -> Path | str:
    """Return a file's path for ``open``; raise OSError for a pipe and the like, whose other end ``open`` waits for."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(regular(path), "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def content_digest(folder: Path, word_vectors: bool = False) -> str:
    """Return the SHA-256 of a binarized folder's texts, labels and questions, and of its word vectors."""
    parts = ("input0", "input1", "label", "question", *(["glove"] if word_vectors else []))
    files = sorted(
        file for pattern in (*DATA, "glove/*.npy") for file in folder.glob(pattern) if file.parent.name in parts
    )
    digests = [f"{file.parent.name}/{file.name} {sha256(file)}" for file in files]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def write_checksums(folder: Path) -> None:
    """Record the texts, labels, numbers and questions of ``folder``; word vectors have another record."""
    covered = (*DATA, "*/*.idx", "number/*.txt", "left_out/*.txt", FOLDER_FACTS)
    files = sorted(file for pattern in covered for file in folder.glob(pattern))
    lines = [f"{sha256(file)}  {file.relative_to(folder).as_posix()}\n" for file in files]
    (folder / RECORD).write_text("".join(lines), encoding="utf-8")


def read_checksums(folder: Path) -> dict[str, str] | None:
    """Return {"input0/train.bin": digest}; None for a folder without a record, such as fairseq-preprocess makes."""
    path = folder / RECORD
    if not path.is_file():
        return None
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    matches = [LINE.fullmatch(line) for line in lines]
    if not matches or None in matches:
        raise InputError(f"{path} is not 'checksum  file' in each line: {REMEDY}")
    return {match[2]: match[1] for match in matches if match}


def compare(folder: Path, files: Iterable[str], record: dict[str, str] | None) -> None:
    """Raise InputError unless ``files`` have the checksums of ``record``, if there is one."""
    if record is None:
        return
    for name in files:
        path = folder / name
        digest = sha256(path) if path.is_file() else None
        if digest is None or record.get(name) != digest:
            what = "is missing" if digest is None else "is not what preprocess wrote"
            raise InputError(f"{path} {what}: {REMEDY}")
