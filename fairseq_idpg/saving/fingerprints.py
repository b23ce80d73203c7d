"""What was found out about large files, kept in the user's cache, so that not every process finds it out anew.

To see that a backbone is whole and finite, and to make the SHA-256 of its tensors, takes seconds at the size of
RoBERTa-large. A note of both holds only for the file that was read: of the same path, inode, size and times of last
change. A note that says anything else, or does not fit its own checksum, is not used.

The notes are in ``$XDG_CACHE_HOME/fairseq_idpg/backbones``, by default below ``~/.cache``. The environment variable
FAIRSEQ_IDPG_CACHE names another folder than ``fairseq_idpg``. With ``FAIRSEQ_IDPG_CACHE=off`` notes are neither
made nor read.
"""

import contextlib
import hashlib
import json
import os
import stat
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from preprocess.checksums import regular
from preprocess.errors import InputError
from preprocess.writing import write_text

VARIABLE, OFF = "FAIRSEQ_IDPG_CACHE", "off"
VERSION = 3  # raised when what is checked of a file, or what its digests are of, changes
SETTLED = 2.0  # seconds: clocks of file systems are coarse, and a later change could have the same time
LARGEST = 2**16  # bytes of a note


@dataclass(frozen=True)
class KnownFile:
    """A file at rest.

    Attributes:
        path: absolute, links followed.
        changed, entry_changed: when the contents, and the entry in the file system, were changed last, in nanoseconds.
        digests: of its tensors, by what they are of; not compared. Empty: nothing is known of the file.
    """

    path: str
    inode: int
    size: int
    changed: int
    entry_changed: int
    digests: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def checked(self) -> bool:
        """Whether somebody has read the whole file and found nothing wrong."""
        return bool(self.digests)

    def is_same(self) -> bool:
        """Return whether the file is still the one that was looked at."""
        return self == stat_file(self.path)

    def save_digest(self, of_what: str, digest: str) -> None:
        """Note a digest of the file, unless it has changed meanwhile or is too new to tell."""
        folder, newest = notes_folder(), max(self.changed, self.entry_changed)
        if folder is None or time.time_ns() - newest < SETTLED * 1e9 or not self.is_same():
            return
        self.digests[of_what] = digest
        with contextlib.suppress(OSError, InputError):
            write_text(note_of(folder, self.path), signed(json.dumps(asdict(self))))


def load_note(path: str) -> KnownFile | None:
    """Return the file with what is known of it; None where there are no notes, or no such file."""
    folder, found = notes_folder(), stat_file(path)
    if folder is None or found is None:
        return None
    noted = read_note(note_of(folder, found.path))
    return noted if noted == found else found


def stat_file(path: str) -> KnownFile | None:
    """Return the file as it lies there, nothing known of it; None where there is none."""
    place = os.path.realpath(path)
    try:
        found = os.stat(place)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return KnownFile(place, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def notes_folder() -> Path | None:
    """Return where notes are; None: they are switched off, or there is no home."""
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
