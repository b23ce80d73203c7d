"""Late prompts through the command line: train, resume, validate."""

from __future__ import annotations

import pytest
import torch

from tests.folders import train, validate, write_backbone, write_folder
from tests.helpers import ALWAYS_SAVED


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("late")
    return write_folder(folder / "data"), write_backbone(folder / "model.pt")


@pytest.mark.parametrize("method", ["lpt-mppg", "id-spam+adapter"])
def test_training_resume_and_validation(place, tmp_path, method):
    data, backbone = place
    options = ["--backbone", backbone, "--method", method]
    whole = train(data, tmp_path / "whole", *options, "--max-epoch", 3, without="--phm-n")
    assert "prompt: 5 rows (late) at layers 2" in whole.output
    first = train(data, tmp_path / "parts", *options, "--max-epoch", 1, without="--phm-n")
    second = train(data, tmp_path / "parts", *options, "--max-epoch", 3, without="--phm-n")
    assert first.log("train_loss") + second.log("train_loss") == whole.log("train_loss")
    checkpoint = tmp_path / "whole" / "checkpoint_last.pt"
    checked = validate(data, checkpoint)
    assert checked.log("valid_loss") == pytest.approx(whole.log("valid_loss")[-1:], abs=1e-3)
    saved = set(torch.load(checkpoint, weights_only=True)["model"]) - ALWAYS_SAVED
    assert all(name.startswith(("method.", "classification_heads.")) for name in saved)
