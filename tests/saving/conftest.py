"""A checkpoint, its backbone and its data as version 0.1 wrote them, and strangers' versions of it."""

import copy
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

OF_VERSION_0_1 = Path(__file__).parent / "of_version_0_1"
SIZE = ["--encoder-layers=2", "--encoder-embed-dim=16", "--encoder-ffn-embed-dim=32", "--encoder-attention-heads=4"]


@pytest.fixture
def old(tmp_path):
    """Paths of a copy: ``data``, ``backbone``, ``checkpoint``, and the ``predictions`` that version 0.1 made of it.

    Attributes:
        state: () -> what the checkpoint holds, its backbone's path brought up to date.
        save: (state, name) -> path of a checkpoint that holds ``state``.
    """
    folder = shutil.copytree(OF_VERSION_0_1, tmp_path / "old")
    checkpoint = folder / "run" / "checkpoint_best.pt"
    whole = torch.load(checkpoint, weights_only=True)
    whole["cfg"]["model"]["backbone"] = str(folder / "backbone" / "model.pt")
    whole["cfg"]["task"]["data"] = str(folder / "pairs")
    torch.save(whole, checkpoint)

    def save(state, name="changed.pt"):
        torch.save(state, tmp_path / name)
        return tmp_path / name

    paths = {"data": folder / "pairs", "backbone": folder / "backbone" / "model.pt", "checkpoint": checkpoint}
    paths["predictions"] = folder / "predictions.tsv"
    return SimpleNamespace(**paths, state=lambda: copy.deepcopy(whole), save=save)
