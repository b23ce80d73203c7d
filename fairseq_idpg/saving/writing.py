"""Files that are there completely or not at all, whatever ends the process."""

import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import BinaryIO, Callable, Iterator, Optional

from preprocess.folders import new_file

from ..errors import InputError

TEMPORARY = ".tmp"  # as fairseq's


def write_whole(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Calls ``write`` on a temporary file beside ``path`` that then takes its place.

    The bytes reach the disk before the name does, so that a power cut leaves the old file or the new one.

    Raises:
        InputError: the disk is full, or the folder cannot be written to; the old file is intact.
    """
    temporary = path + TEMPORARY
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_names(os.path.dirname(path) or ".")
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        reason = _system_error(error)
        if reason is None:
            raise
        raise InputError(
            f"{path} could not be written ({reason.strerror or reason}): what stood there before is intact; make room "
            "or give another --save-dir, and the same command goes on"
        ) from None


def copy_whole(source: str, path: str) -> None:
    """A copy of ``source`` that is never seen half-written."""

    def write(file: BinaryIO) -> None:
        with open(source, "rb") as original:
            shutil.copyfileobj(original, file, 2**20)

    write_whole(path, write)


def check_output(path: Path, option: str) -> None:
    """Finds out before the work whether its result can be written; what stands there is left alone.

    Raises:
        InputError: ``path`` is a folder, write-protected, or on a disk that is full or read-only.
    """
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder: name a file")
    with _refusals(path, option):
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if is_device(path):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent) as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())


def write_output(path: Path, text: str, option: str) -> None:
    """A result, completely or not at all; a device or a pipe (/dev/stdout) is written to, not replaced.

    Raises:
        InputError: the system refuses.
    """
    with _refusals(path, option):
        if is_device(path):
            path.write_text(text, encoding="utf-8")
            return
        with new_file(Path(os.path.realpath(path))) as work:
            work.write_text(text, encoding="utf-8")


def is_device(path: Path) -> bool:
    return path.exists() and not path.is_file()


@contextlib.contextmanager
def _refusals(path: Path, option: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{option} {path} cannot be written to ({error.strerror or error}): make room or name another file"
        ) from None


def leftovers(folder: str) -> Iterator[Path]:
    """Temporary files of savings that were cut short."""
    for name in ("checkpoint", "crash"):
        yield from Path(folder).glob(f"{name}*.pt{TEMPORARY}")


def _system_error(error: BaseException) -> Optional[OSError]:
    """The operating system's refusal behind ``error``, which torch turns into a RuntimeError."""
    cause = error.__context__ if isinstance(error, RuntimeError) else error
    return cause if isinstance(cause, OSError) else None


def _sync_names(folder: str) -> None:
    """Makes a rename outlast a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        names = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(names)
        finally:
            os.close(names)
