"""Checkpoints that a kill cut short, that are complete, that are too large to keep."""

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


def has_all_updates(checkpoint: Path) -> bool:
    """Whether training that counts updates has ended; fairseq, started again, would make one more."""
    import torch  # not for the quick start, which needs no more than the above

    if not checkpoint.exists():
        return False
    state = torch.load(checkpoint, weights_only=True, mmap=True)
    limit = state["cfg"]["optimization"]["max_update"]
    return 0 < limit <= state["optimizer_history"][-1]["num_updates"]


def drop_optimizer(checkpoint: Path) -> None:
    """Takes out of the file what only resuming needs: the optimizer's state, two thirds of the checkpoint of a whole
    model, and its float32 weights of a run in half precision."""
    import torch

    state = torch.load(checkpoint, weights_only=True, mmap=True)
    if state.get("last_optimizer_state") is None:
        return
    kept = state["model"].get("_extra_state", {})
    if "fp16" in kept:
        from fairseq_idpg.saving.checksum import carry_checksum, checksum

        if kept.get("checksum") != checksum(state["model"]):
            return  # damaged: a new checksum would hide it from whoever reads the file
        del kept["fp16"]
        carry_checksum(state["model"])
    temporary = checkpoint.with_name(f".{checkpoint.name}")
    torch.save({**state, "last_optimizer_state": None}, temporary)
    os.replace(temporary, checkpoint)
