"""Checkpoints that a kill cut short."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path


def is_whole(checkpoint: Path) -> bool:
    """Whether a checkpoint was written to its end (a zip archive has its directory there)."""
    return zipfile.is_zipfile(str(checkpoint))


def repair_last(folder: Path) -> None:
    """Undoes a checkpoint_last.pt that was cut short.

    fairseq writes the first file of a save through a temporary one, but copies checkpoint_best.pt
    to checkpoint_last.pt in place. A broken copy means that its source was just written.
    """
    best, last = folder / "checkpoint_best.pt", folder / "checkpoint_last.pt"
    if not last.exists() or is_whole(last):
        return
    if best.exists() and is_whole(best):
        temporary = folder / "checkpoint_last.pt.copy"
        shutil.copyfile(best, temporary)
        os.replace(temporary, last)
    else:
        last.unlink()
