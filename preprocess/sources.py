"""Raw files: plain, gzipped, or inside a zip archive."""

import gzip
import hashlib
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from .errors import InputError
from .tasks import FOLDERS, TASKS, Task

BOM = "\ufeff"
BLOCK = 1 << 18  # bytes read at a time
LONGEST = 1 << 20  # bytes of a line: longer ones are no example
# What Python's readers of archives raise over damaged ones.
DAMAGED = (
    *(OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(ValueError, KeyError, RuntimeError, OverflowError, MemoryError),
)
# Files that are whole, and that nothing here reads: by their suffix, what to do.
SHEET = "save its table as CSV, and give that"
REMEDIES = {**dict.fromkeys((".bz2", ".xz", ".zst"), "unpack it first"), **dict.fromkeys((".xlsx", ".ods"), SHEET)}
Stream = IO[bytes] | gzip.GzipFile


class Source:
    """A raw text file; ``sha256`` is that of its unpacked bytes, once ``lines`` has come to the end."""

    one_text = False  # rather than a line for each

    def __init__(self, name: str, open_stream: Callable[[], Stream] | None = None):
        self.name = name
        self._open = open_stream
        self.sha256 = ""

    @classmethod
    def file(cls, path: Path) -> "Source":
        if not path.is_file():
            raise InputError(f"{path} does not exist or is not a file: name the file to read")
        if path.suffix.lower() in REMEDIES:
            raise InputError(f"{path} is neither plain text nor a .gz file: {REMEDIES[path.suffix.lower()]}")
        return cls(str(path), lambda: gzip.open(path) if path.suffix == ".gz" else open(path, "rb"))

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield (line number from 1, line without its end); drop the CR of CRLF and every BOM in front of a line.

        Raise InputError for invalid UTF-8, a damaged archive, CR alone as line ends, a line longer than ``LONGEST``.
        """
        digest, number = hashlib.sha256(), 0
        assert self._open is not None
        try:
            with self._open() as stream:
                while raw := stream.read(BLOCK):
                    # up to the end of a line; of standard input, the next one may not have come yet
                    rest = b"" if raw.endswith(b"\n") else stream.readline(LONGEST)
                    if len(rest) == LONGEST:
                        raise too_long(self.name, number + raw.count(b"\n") + 1)
                    raw += rest
                    digest.update(raw)
                    text = self._decode(raw, number)
                    # a file of CRs would be one line
                    if "\r" in text.rstrip("\r") and "\n" not in text and not number and not self.one_text:
                        remedy = "convert it, e.g. with tr '\\r' '\\n'"
                        raise InputError(f"{self.name} has a CR at the ends of its lines: {remedy}")
                    for line in text.removesuffix("\n").split("\n"):
                        number += 1
                        yield number, line.removesuffix("\r").removeprefix(BOM)
        except DAMAGED as error:
            raise damaged(self.name, error) from None
        self.sha256 = digest.hexdigest()

    def _decode(self, raw: bytes, lines_before: int) -> str:
        try:
            text, place = raw.decode("utf-8"), raw.find(0)
        except UnicodeDecodeError as error:
            text, place = "", error.start
        if place >= 0:
            line = lines_before + raw.count(b"\n", 0, place) + 1
            what = f"byte {raw[place]:#04x} is not UTF-8 text"
            remedy = "convert text with iconv -f ENCODING -t utf-8, unpack an archive, or name a gzipped file *.gz"
            raise InputError(f"{self.name} line {line}: {what}: {remedy}")
        return text


def damaged(name: object, error: Exception) -> InputError:
    """Return the error for a file or archive that cannot be read."""
    reason = getattr(error, "strerror", None) or error
    return InputError(f"{name} is damaged or cannot be read ({reason}): fetch it again")


def too_long(name: str, line: int) -> InputError:
    """Return the error for a line that is too long to hold: a file of kilobytes may unpack to gigabytes."""
    return InputError(f"{name} line {line} has more than {LONGEST >> 20} MiB: name text with an example in each line")


class TextFolders(Source):
    """A file for each text, FOLDER/LABEL/*.txt, sorted; ``LABEL<tab>TEXT``, the text without its last line end."""

    def __init__(self, folder: Path, labels: Sequence[str]):
        self.files = [(label, file) for label in sorted(labels) for file in sorted((folder / label).glob("*.txt"))]
        super().__init__(str(folder))

    def lines(self) -> Iterator[tuple[int, str]]:
        digest = hashlib.sha256()
        for number, (label, path) in enumerate(self.files, start=1):
            file = Source.file(path)
            file.one_text = True
            if path.stat().st_size > LONGEST:
                raise too_long(file.name, 1)
            text = "\n".join(line for _, line in file.lines())
            digest.update(f"{file.sha256}  {label}/{path.name}\n".encode())
            yield number, f"{label}\t{text}"
        self.sha256 = digest.hexdigest()


def find_source(raw: Path, task: Task, split: str) -> Source | None:
    """Return the task's file of a split, from one of ``places`` or a zip archive there; None where there is none."""
    file = task.files[split]
    for name in places(task, split):
        if (raw / name).is_file():
            # CR's files have the names, columns and labels of MR's
            folder = raw.resolve().name
            owners = [other.name for other in TASKS.values() if folder in folder_names(other)]
            if name == file and owners and folder not in folder_names(task):
                what = f"is the folder of {owners[0]}, not of {task.name}"
                raise InputError(f"--raw {raw} {what}: name that of {task.name}, or the one above")
            return Source.file(raw / name)
        if task.layout == FOLDERS and all((raw / name / label).is_dir() for label in task.labels):
            return TextFolders(raw / name, task.labels)
    archives = [raw] if raw.suffix == ".zip" else sorted(raw.glob("*.zip"))
    for archive in archives:
        try:
            opened = zipfile.ZipFile(archive)
        except DAMAGED as error:
            raise damaged(archive, error) from None
        for member in opened.infolist():
            parts = member.filename.split("/")
            if parts[-1] == file and len(parts) > 1 and parts[-2] in folder_names(task):
                return Source(f"{archive}:{member.filename}", partial(opened.open, member))
    return None


def folder_names(task: Task) -> set[str]:
    return {Path(folder).name for folder in task.folders}


def places(task: Task, split: str) -> list[str]:
    """Return where below --raw a split may lie; the first that is there counts."""
    file = task.files[split]
    inside = [f"{folder}/{file}" for folder in task.folders]
    beside = [f"{folder}-{file}" for folder in task.folders if "/" not in folder]
    return [*inside, *beside, file]
