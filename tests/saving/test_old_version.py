"""``of_version_0_1``: backbone, data and a checkpoint of M-IDPG-PHM, made before checkpoints recorded their data.

The numbers are those that the version of that time gives for them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from fairseq_idpg.inference.folder import load_on_folder, predict_split
from preprocess.errors import InputError
from tests.folders import train

PLACE = Path(__file__).parent / "of_version_0_1"
CHECKPOINT, DATA, BACKBONE = PLACE / "run" / "checkpoint_best.pt", PLACE / "pairs", PLACE / "backbone" / "model.pt"
# probabilities of "0" of the 13 examples of valid
SAID = [0.540641, 0.540654, 0.540423, 0.540601, 0.540561, 0.540745, 0.540747, 0.540454, 0.540591, 0.540582]
SAID += [0.540818, 0.540600, 0.540625]
SIZE = ["--encoder-layers=2", "--encoder-embed-dim=16", "--encoder-ffn-embed-dim=32"]
WARNING = "this checkpoint is of an earlier version"


def test_predictions(caplog):
    model, task = load_on_folder(str(CHECKPOINT), str(DATA), cpu=True, backbone=str(BACKBONE))
    found = predict_split(model, task, "valid")
    probabilities = [float(line.split("\t")[1]) for line in found.lines()]
    assert probabilities == pytest.approx(SAID, abs=2e-6)
    assert found.label_names == ["0", "1"] and list(found.answers) == [0] * 13
    assert [record.levelname for record in caplog.records if WARNING in record.message] == ["WARNING"]


def test_resuming(tmp_path):
    shutil.copyfile(CHECKPOINT, tmp_path / "checkpoint_last.pt")
    finished = train(DATA, tmp_path, "--backbone", BACKBONE, *SIZE, "--max-epoch", 4)
    assert finished.log("valid_loss") == pytest.approx([0.996, 0.997], abs=2e-3)
    assert finished.log("train_loss") == pytest.approx([1.016, 0.998], abs=2e-3)
    assert finished.output.count(WARNING) == 1
    again = train(DATA, tmp_path, "--backbone", BACKBONE, *SIZE, "--max-epoch", 5)  # now it has a record
    assert WARNING not in again.output


def test_names_are_needed_from_somewhere(tmp_path):
    shutil.copytree(DATA, tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "label")
    with pytest.raises(InputError, match="does not know its label names, and .*data has no label/dict.txt: add that"):
        load_on_folder(str(CHECKPOINT), str(tmp_path / "data"), cpu=True, backbone=str(BACKBONE))


def test_other_numbers_of_classes_are_still_refused(tmp_path):
    shutil.copytree(DATA, tmp_path / "data")
    (tmp_path / "data" / "label" / "dict.txt").write_text("0 1\n1 1\n2 1\n")
    model, task = load_on_folder(str(CHECKPOINT), str(tmp_path / "data"), cpu=True, backbone=str(BACKBONE))
    with pytest.raises(InputError, match="label/dict.txt, which has 3 labels"):
        predict_split(model, task, "valid")


def test_its_backbone_is_known_by_the_bytes_of_its_file(tmp_path):
    moved = shutil.copyfile(BACKBONE, tmp_path / "moved.pt")
    load_on_folder(str(CHECKPOINT), str(DATA), cpu=True, backbone=str(moved))
    torch.save(torch.load(BACKBONE, weights_only=True), moved, _use_new_zipfile_serialization=False)
    with pytest.raises(InputError, match="SHA-256 of the file .* is not the backbone this checkpoint was trained on"):
        load_on_folder(str(CHECKPOINT), str(DATA), cpu=True, backbone=str(moved))
