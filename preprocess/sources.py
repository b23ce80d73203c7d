"""Raw files wherever they lie: plain, gzipped, or inside a zip archive."""

from __future__ import annotations

import gzip
import hashlib
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO, Callable, Iterator

from .errors import DataError
from .tasks import Task

BOM = "\ufeff"
BLOCK = 1 << 20  # bytes read at a time


class Source:
    """A raw text file.

    ``name``: for messages; ``size``: bytes to read, None when unknown; ``sha256``: of the bytes read, once ``lines``
    has come to the end.
    """

    def __init__(self, name: str, size: int | None, open_stream: Callable[[], BinaryIO]):
        self.name = name
        self.size = size
        self._open = open_stream
        self.sha256 = ""

    @classmethod
    def file(cls, path: Path) -> Source:
        if not path.is_file():
            raise DataError(f"{path} does not exist or is not a file: name the file to read")
        if path.suffix == ".gz":
            return cls(str(path), None, lambda: gzip.open(path))
        return cls(str(path), path.stat().st_size, lambda: open(path, "rb"))

    @classmethod
    def member(cls, archive: Path, member: zipfile.ZipInfo) -> Source:
        return cls(f"{archive}:{member.filename}", member.file_size, lambda: zipfile.ZipFile(archive).open(member))

    def lines(self, on_bytes: Callable[[int], object] = lambda count: None) -> Iterator[tuple[int, str]]:
        """(line number from 1, line without its end); a BOM and the CR of CRLF are dropped.

        Raises:
            DataError: invalid UTF-8, a damaged archive.
        """
        digest = hashlib.sha256()
        number = 0
        try:
            with self._open() as stream:
                for block in iter(lambda: stream.readlines(BLOCK), []):
                    raw = b"".join(block)
                    digest.update(raw)
                    on_bytes(len(raw))
                    text = self._decode(raw, block, number)
                    if not number and text.startswith(BOM):
                        text = text[1:]
                    ended = text[:-1] if text.endswith("\n") else text
                    for line in ended.split("\n"):
                        number += 1
                        yield number, line[:-1] if line.endswith("\r") else line
        except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise DataError(f"{self.name} is damaged ({error}): fetch it again") from None
        self.sha256 = digest.hexdigest()

    def _decode(self, raw: bytes, block: list[bytes], lines_before: int) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            pass
        for number, line in enumerate(block, start=lines_before + 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{self.name} line {number}: byte {line[error.start]:#04x} is not UTF-8: convert the file, e.g. "
                    "with iconv -f latin1 -t utf-8"
                ) from None
        raise AssertionError("a line end never lies within a character")


def find_source(raw: Path, task: Task, split: str) -> Source | None:
    """The task's file of a split below ``raw``: in the task's folder, in ``raw`` itself, or in a zip archive.

    Returns None when there is none; ``places`` says where it was looked for.
    """
    file = task.files[split]
    for name in places(task, split):
        if (raw / name).is_file():
            return Source.file(raw / name)
    archives = [raw] if raw.suffix == ".zip" else sorted(raw.glob("*.zip"))
    for archive in archives:
        try:
            members = zipfile.ZipFile(archive).infolist()
        except zipfile.BadZipFile as error:
            raise DataError(f"{archive} is damaged ({error}): fetch it again") from None
        for member in members:
            parts = member.filename.split("/")
            if parts[-1] == file and len(parts) > 1 and parts[-2] in {Path(folder).name for folder in task.folders}:
                return Source.member(archive, member)
    return None


def places(task: Task, split: str) -> list[str]:
    """Where below --raw a split may lie, the first found wins."""
    file = task.files[split]
    inside = [f"{folder}/{file}" for folder in task.folders]
    beside = [f"{folder}-{file}" for folder in task.folders if "/" not in folder]
    return [*inside, *beside, file]
