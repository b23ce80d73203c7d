"""What was found out about large files, kept in the user's cache, so that not every process finds it out anew.

To see that a backbone is whole and finite, and to make the SHA-256 of its tensors, takes seconds at the size of
RoBERTa-large. A note of both holds only for the file that was read: of the same path, inode, size and times of last
change, and with the same checksums of its records in the directory of its zip archive. A note that says anything else,
or does not fit its own checksum, is not used.

The notes are in ``$XDG_CACHE_HOME/fairseq_idpg/backbones``, by default below ``~/.cache``. The environment variable
FAIRSEQ_IDPG_CACHE names another folder in the place of ``fairseq_idpg``; ``FAIRSEQ_IDPG_CACHE=off``: none are made or
read.
"""

import contextlib
import hashlib
import json
import os
import stat
import time
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from preprocess.checksums import regular
from preprocess.errors import InputError
from preprocess.writing import write_text

VARIABLE, OFF = "FAIRSEQ_IDPG_CACHE", "off"
VERSION = 2  # raised when what is checked of a file, or what its digests are of, changes
SETTLED = 2.0  # seconds: clocks of file systems are coarse, and a later change could have the same time
LARGEST = 2**16  # bytes of a note


@dataclass(frozen=True)
class KnownFile:
    """A zip archive at rest.

    Attributes:
        path: absolute, links followed.
        changed, entry_changed: when the contents, and the entry in the file system, were changed last, in nanoseconds.
        records: SHA-256 of the archive's directory, which holds the CRC-32 of each record.
        digests: of its tensors, by what they are of; no part of a comparison. Empty: nothing is known of the file.
    """

    path: str
    inode: int
    size: int
    changed: int
    entry_changed: int
    records: str
    digests: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def checked(self) -> bool:
        """Whether somebody has read the whole file and found nothing wrong."""
        return bool(self.digests)

    def is_same(self) -> bool:
        """Whether the file is still the one that was looked at."""
        return self == look(self.path)

    def keep(self, of_what: str, digest: str) -> None:
        """Notes a digest of the file, unless it has changed meanwhile or is too new to tell."""
        folder, newest = notes_folder(), max(self.changed, self.entry_changed)
        if folder is None or time.time_ns() - newest < SETTLED * 1e9 or not self.is_same():
            return
        self.digests[of_what] = digest
        with contextlib.suppress(OSError, InputError):
            write_text(note_of(folder, self.path), signed(json.dumps(asdict(self))))


def recall(path: str) -> KnownFile | None:
    """The file, with what is known of it; None where there are no notes, or it is no zip archive."""
    folder = notes_folder()
    found = None if folder is None else look(path)
    if folder is None or found is None:
        return None
    noted = read_note(note_of(folder, found.path))
    return noted if noted == found else found


def look(path: str) -> KnownFile | None:
    """The file as it lies there, nothing known of it; None where it is no zip archive, or gone."""
    digest = hashlib.sha256()
    try:
        before = os.stat(path)
        if not stat.S_ISREG(before.st_mode):
            return None
        with zipfile.ZipFile(path) as archive:
            for record in archive.infolist():
                line = (record.filename, record.CRC, record.file_size, record.compress_size, record.header_offset)
                digest.update(repr(line).encode())
        after = os.stat(path)
    except Exception:  # whatever zipfile makes of bytes that are no archive; the reader says what is wrong
        return None
    place = os.path.realpath(path)
    found, again = (
        KnownFile(place, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, digest.hexdigest())
        for status in (before, after)
    )
    return found if found == again else None


def notes_folder() -> Path | None:
    """Where notes are; None: they are switched off, or there is no home."""
    named = os.environ.get(VARIABLE, "")
    if named == OFF:
        return None
    if named:
        return Path(named).absolute() / "backbones"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    with contextlib.suppress(RuntimeError):
        base = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
        return base / "fairseq_idpg" / "backbones"
    return None


def note_of(folder: Path, path: str) -> Path:
    return folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:32]}.note"


def signed(fields: str) -> str:
    """Return a note: its checksum, which covers the version too, and what it says."""
    return f"{hashlib.sha256(f'{VERSION} {fields}'.encode()).hexdigest()} {fields}"


def read_note(path: Path) -> KnownFile | None:
    """Return a note, or None if it is missing, damaged or from another version."""
    try:
        with open(regular(path), "rb") as file:
            note = file.read(LARGEST).decode()
        fields = note.partition(" ")[2]
        return KnownFile(**json.loads(fields)) if note == signed(fields) else None
    except (OSError, ValueError):
        return None
