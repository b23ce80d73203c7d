"""Folders and files that are there completely or not at all, whatever ends the process.

They are filled under a hidden name beside their own, ``.NAME.xxxxxxxx``. The bytes of a file reach the disk before it
takes its name, so a power cut leaves the old file or the new one. A killed process leaves its hidden name behind; the
next call for the same NAME removes that. What a living process fills is locked: a folder by the file ``lock`` in it, a
file itself. A folder without such a file belongs to somebody else and stays.
"""

import contextlib
import fcntl
import fnmatch
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from .errors import InputError

LOCK = "lock"


@contextlib.contextmanager
def new_folder(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """Make a hidden folder to fill, which takes the name ``path`` when the block ends without an error.

    A link stays, and the folder behind it is made or replaced. Raise InputError where ``path`` exists and ``overwrite``
    is not set, and OSError with the name ``path`` where it cannot be written.
    """
    as_typed = path
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    sweep(path)
    if path.exists() and not overwrite:
        raise InputError(f"{as_typed} exists already: remove it, name another --out, or give --overwrite")
    with scratch_folder(path) as work:
        filled, replaced = work / "new", work / "old"
        filled.mkdir()
        yield filled
        try:
            if path.exists():
                os.rename(path, replaced)
            os.rename(filled, path)
        except BaseException:  # Ctrl-C too; ``work`` is removed with all that is still in it
            if replaced.exists() and not path.exists():
                os.rename(replaced, path)
            raise


def check_only(path: Path, names: Iterable[str]) -> None:
    """Raise InputError where a folder has other files than ``names``, which are patterns of paths below it."""
    for folder, _, files in os.walk(path):
        for file in sorted(files):
            below = Path(folder, file).relative_to(path).as_posix()
            if not any(fnmatch.fnmatchcase(below, name) for name in names):
                raise InputError(f"{path} is there, and {below} in it would be lost: move one of them elsewhere")


@contextlib.contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """Make a hidden, locked folder ``.NAME.xxxxxxxx`` beside ``path``, which goes away when the block ends."""
    with _claimed(path, folder=True) as (work, _):
        yield work


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Make an empty hidden file to write, which takes the name ``path`` when the block ends without an error."""
    if is_device(path) and not path.is_dir():
        raise InputError(f"{path} is a device or a pipe: name a file")
    sweep(path)
    with _claimed(path, folder=False) as (work, file):
        yield work
        os.fsync(file.fileno())
        os.replace(work, path)
        with contextlib.suppress(OSError):  # the rename outlasts a power cut, where the file system can do that
            names = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(names)
            finally:
                os.close(names)


def write_text(path: Path, text: str) -> None:
    """Write a file of text, completely or not at all."""
    with new_file(path) as work:
        work.write_text(text, encoding="utf-8")


def check_output(path: Path, option: str) -> None:
    """Raise InputError before the work if its result cannot be written; an existing file stays as it is."""
    with _refusals(path, option):
        if path.is_dir() or path.exists() and not os.access(path, os.W_OK):
            raise OSError("it is a folder" if path.is_dir() else "it is write-protected")
        if is_device(path):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent, buffering=0) as file:
            file.write(bytes(4096))
            os.fsync(file.fileno())


def check_replaces_nothing(path: Path, option: str, read: Mapping[str, Iterable[str | Path | None]]) -> None:
    """Raise InputError for a result that would overwrite what it is made from, or lie in such a folder.

    ``read``: from an option or argument to its files, binarized folders, or folders of ``fairseq_idpg.export``.
    """
    place = Path(os.path.realpath(path))
    for name, sources in read.items():
        for source in filter(None, sources):
            real = Path(os.path.realpath(str(source)))
            if real == place and place.is_file():
                raise InputError(f"{option} {path} is the file of {name}, which it would replace: name another")
            if real in place.parents and ((real / "input0").is_dir() or (real / "config.json").is_file()):
                raise InputError(f"{option} {path} lies in the folder {source}, which is read: name another place")


def check_apart(option: str, path: Path, other_option: str, other: Path) -> None:
    """Raise InputError where two results would go to one file, so that the second replaces the first."""
    if os.path.realpath(path) == os.path.realpath(other):
        raise InputError(f"{option} {path} and {other_option} {other} are one file: name another for one of them")


def write_output(path: Path, text: str, option: str) -> None:
    """Write a result, completely or not at all; see ``open_output``."""
    with open_output(path, option) as file:
        file.write(text)


@contextlib.contextmanager
def open_output(path: Path, option: str) -> Iterator[IO[str]]:
    """Open a file for a result, which is complete when the block ends, and unchanged after an error.

    A device or a pipe (/dev/stdout) is written to, not replaced. Raise InputError where the system refuses.
    """
    with _refusals(path, option):
        if is_device(path):
            with open(path, "w", encoding="utf-8") as file:
                yield file
            return
        with new_file(Path(os.path.realpath(path))) as work, open(work, "w", encoding="utf-8") as file:
            yield file


def is_device(path: Path) -> bool:
    return path.exists() and not path.is_file()


@contextlib.contextmanager
def _refusals(path: Path, option: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"cannot be written to ({error.strerror or error})"
        raise InputError(f"{option} {path} {what}: make room or name another file") from None


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Name ``path`` in errors that name no file (a full disk), or a hidden one beside ``path``."""
    try:
        yield
    except OSError as error:
        hidden = str(path.with_name(f".{path.name}."))
        if error.errno is not None and str(error.filename or hidden).startswith(hidden):
            error.filename = str(path)
        raise


def sweep(path: Path) -> None:
    """Remove what killed calls for the same ``path`` left; bring back a folder that one of them was replacing."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}({re.escape(path.suffix)})?")
    with contextlib.suppress(OSError):
        for left in [entry for entry in path.parent.iterdir() if pattern.fullmatch(entry.name)]:
            with contextlib.suppress(OSError):
                left.rmdir()  # an empty folder: its call was killed before there was a lock
            with contextlib.suppress(OSError), open(left / LOCK if left.is_dir() else left, "r+b") as file:
                _lock(file)
                if (left / "old").is_dir() and not path.exists():
                    os.rename(left / "old", path)
                shutil.rmtree(left) if left.is_dir() else left.unlink()


@contextlib.contextmanager
def _claimed(path: Path, folder: bool) -> Iterator[tuple[Path, IO[bytes]]]:
    """Make a hidden folder or file beside ``path``, and open the file that is locked while it is filled."""
    with named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        work, lock = _claim(path, folder)
        with lock:
            try:
                yield work, lock
            finally:
                shutil.rmtree(work, ignore_errors=True) if folder else work.unlink(missing_ok=True)


def _claim(path: Path, folder: bool) -> tuple[Path, IO[bytes]]:
    """Return a new hidden folder or file beside ``path``, and the open file whose lock says that it is being filled."""
    while True:
        work = path.with_name(f".{path.name}.{secrets.token_hex(4)}{'' if folder else path.suffix}")
        if folder:
            work.mkdir()
        # another process may sweep it up before it is locked: then once more
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            file = open(work / LOCK if folder else work, "xb")
            try:
                _lock(file)
            except BlockingIOError:
                raise
            except OSError:
                pass  # without locks on the file system, nothing is locked and nothing swept up
            if os.fstat(file.fileno()).st_nlink:
                return work, file


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the lock of a file and hold it; the system releases it when a process ends."""
    with open(path, "a+") as file:  # which does not wait for the other end of a pipe
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _lock(file: IO[bytes]) -> None:
    """Lock a file until it is closed; raise BlockingIOError if another process holds the lock."""
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
