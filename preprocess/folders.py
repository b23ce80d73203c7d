"""Folders and files that are there completely or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Iterator

from .errors import DataError


@contextlib.contextmanager
def new_folder(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """A hidden folder beside ``path`` to fill; it takes the name ``path`` when the block ends without an error.

    Raises:
        DataError: ``path`` exists and ``overwrite`` is not set; a file is in its way.
    """
    if path.parent.exists() and not path.parent.is_dir():
        raise DataError(f"{path.parent} is a file: name a folder with --out")
    if path.exists() and not overwrite:
        raise DataError(f"{path} exists already: remove it, name another --out, or give --overwrite")
    path.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        filled, replaced = work / "new", work / "old"
        filled.mkdir()
        yield filled
        if path.exists():
            os.rename(path, replaced)
        os.rename(filled, path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A hidden path beside ``path`` to write; it takes the name ``path`` when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    work = path.with_name(f".{path.name}.{os.getpid()}{path.suffix}")
    try:
        yield work
        os.replace(work, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            work.unlink()
