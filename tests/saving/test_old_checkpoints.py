"""Checkpoints of earlier versions predict the same, and training goes on with them as it did.

``of_version_0_1``: backbone, data and a checkpoint of M-IDPG-PHM, made before checkpoints recorded their data.
``of_94c9632``: checkpoints of the commit of that name, the last before files and classes got their present places. Each
was trained for nine epochs on that backbone and data: one with a generator, adapters and trained LayerNorms, one whose
prompt is made by a network that only training needs. Beside each stand what that commit predicts with it for "valid",
and what after a tenth epoch (a training that was never interrupted ends in the same).
"""

import shutil
from pathlib import Path

import pytest
import torch

from fairseq_idpg.inference.folder import load_on_folder, predict_split
from preprocess.errors import InputError
from tests.folders import train, validate
from tests.saving.conftest import OF_VERSION_0_1, SIZE

MOVED = OF_VERSION_0_1.with_name("of_94c9632")
CHECKPOINT, DATA = OF_VERSION_0_1 / "run" / "checkpoint_best.pt", OF_VERSION_0_1 / "pairs"
BACKBONE = OF_VERSION_0_1 / "backbone" / "model.pt"
WARNING = "this checkpoint is of an earlier version"
OPTIONS = {
    "m-idpg-phm+compacter-shared": ["--generator-hidden-size", 8, "--phm-n", 4, "--compacter-n", 2],
    "p-tuning-v2-kv+adapter": [
        *("--prompt-reparameterization", "prefix-mlp", "--reparameterization-hidden-size", 4),
        *("--optimizer", "grouped_adam", "--head-lr", 2),
    ],
}


def opened(checkpoint: Path, data: Path = DATA, backbone: Path = BACKBONE):
    return load_on_folder(str(checkpoint), str(data), cpu=True, backbone=str(backbone))


def predicted(checkpoint: Path) -> list[float]:
    return probabilities("\n".join(predict_split(*opened(checkpoint), "valid").lines_by_row(())))


def probabilities(text: str) -> list[float]:
    return [float(column) for line in text.splitlines() for column in line.split("\t")[1:]]


def said(method: str, after: str = "") -> list[float]:
    return probabilities((MOVED / f"{method}{after}.tsv").read_text())


def test_predictions(caplog):
    for method in OPTIONS:
        assert predicted(MOVED / f"{method}.pt") == pytest.approx(said(method), abs=2e-6)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    first = probabilities((OF_VERSION_0_1 / "predictions.tsv").read_text())
    assert predicted(CHECKPOINT) == pytest.approx(first, abs=2e-6)
    assert [record.levelname for record in caplog.records if WARNING in record.message] == ["WARNING"]


def test_validation():
    moved = ["--model-overrides", repr({"backbone": str(BACKBONE)})]
    assert validate(DATA, MOVED / f"{next(iter(OPTIONS))}.pt", *moved).log("valid_accuracy") == [46.2]  # all "1"


@pytest.mark.parametrize("method", OPTIONS)
def test_resuming(method, tmp_path):
    shutil.copyfile(MOVED / f"{method}.pt", tmp_path / "checkpoint_last.pt")
    finished = train(
        *(DATA, tmp_path, "--backbone", BACKBONE, *SIZE, "--method", method, "--prompt-length", 2),
        *("--adapter-hidden-size", 4, *OPTIONS[method], "--lr", "3e-2", "--max-epoch", 10),
        without="--phm-n",
    )
    assert len(finished.log("train_loss")) == 1
    assert predicted(tmp_path / "checkpoint_last.pt") == pytest.approx(said(method, ".resumed"), abs=1e-4)


def test_resuming_version_0_1(tmp_path):
    shutil.copyfile(CHECKPOINT, tmp_path / "checkpoint_last.pt")
    finished = train(DATA, tmp_path, "--backbone", BACKBONE, *SIZE, "--max-epoch", 4)
    assert finished.log("valid_loss") == pytest.approx([0.996, 0.997], abs=2e-3)
    assert finished.log("train_loss") == pytest.approx([1.016, 0.998], abs=2e-3)
    assert finished.output.count(WARNING) == 1
    again = train(DATA, tmp_path, "--backbone", BACKBONE, *SIZE, "--max-epoch", 5)  # now it has a record
    assert WARNING not in again.output


def test_names_of_classes_are_needed_from_somewhere(tmp_path):
    data = shutil.copytree(DATA, tmp_path / "data")
    (data / "label" / "dict.txt").write_text("0 1\n1 1\n2 1\n")
    with pytest.raises(InputError, match="label/dict.txt, which has 3 labels"):
        predict_split(*opened(CHECKPOINT, data), "valid")
    shutil.rmtree(data / "label")
    with pytest.raises(InputError, match="label/dict.txt"):
        opened(CHECKPOINT, data)


def test_its_backbone_is_known_by_the_bytes_of_its_file(tmp_path):
    moved = shutil.copyfile(BACKBONE, tmp_path / "moved.pt")
    opened(CHECKPOINT, backbone=moved)
    torch.save(torch.load(BACKBONE, weights_only=True), moved, _use_new_zipfile_serialization=False)
    with pytest.raises(InputError, match="SHA-256 of the file .* is not the backbone this checkpoint was trained on"):
        opened(CHECKPOINT, backbone=moved)
