"""``of_94c9632``: checkpoints of the commit of that name, the last before files and classes got their present places.

Each was trained for nine epochs on the backbone and data of ``of_version_0_1``: one with a generator, adapters and
trained LayerNorms, one whose prompt is made by a network that only training needs. Beside each stand what that commit
predicts with it for "valid", and what after a tenth epoch (a training that was never interrupted ends in the same).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fairseq_idpg.inference.folder import load_on_folder, predict_split
from tests.folders import train, validate

PLACE = Path(__file__).parent / "of_94c9632"
OLD = Path(__file__).parent / "of_version_0_1"
DATA, BACKBONE = OLD / "pairs", OLD / "backbone" / "model.pt"
OPTIONS = {
    "m-idpg-phm+compacter-shared": ["--generator-hidden-size", 8, "--phm-n", 4, "--compacter-n", 2],
    "p-tuning-v2-kv+adapter": [
        *("--prompt-reparameterization", "prefix-mlp", "--reparameterization-hidden-size", 4),
        *("--optimizer", "grouped_adam", "--head-lr", 2),
    ],
}
each = pytest.mark.parametrize("method", OPTIONS)


def probabilities(text: str) -> list[float]:
    return [float(column) for line in text.splitlines() for column in line.split("\t")[1:]]


def predicted(checkpoint: Path) -> list[float]:
    model, task = load_on_folder(str(checkpoint), str(DATA), cpu=True, backbone=str(BACKBONE))
    return probabilities("\n".join(predict_split(model, task, "valid").lines()))


def said(method: str, after: str = "") -> list[float]:
    return probabilities((PLACE / f"{method}{after}.tsv").read_text())


@each
def test_predictions(method, caplog):
    assert predicted(PLACE / f"{method}.pt") == pytest.approx(said(method), abs=2e-6)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_validation():
    (method, *_) = OPTIONS
    moved = ["--model-overrides", repr({"backbone": str(BACKBONE)})]
    assert validate(DATA, PLACE / f"{method}.pt", *moved).log("valid_accuracy") == [46.2]  # all "1"


@each
def test_resuming(method, tmp_path):
    shutil.copyfile(PLACE / f"{method}.pt", tmp_path / "checkpoint_last.pt")
    size = ["--encoder-layers=2", "--encoder-embed-dim=16", "--encoder-ffn-embed-dim=32"]
    finished = train(
        *(DATA, tmp_path, "--backbone", BACKBONE, *size, "--method", method, "--prompt-length", 2),
        *("--adapter-hidden-size", 4, *OPTIONS[method], "--lr", "3e-2", "--max-epoch", 10),
        without="--phm-n",
    )
    assert len(finished.log("train_loss")) == 1
    assert predicted(tmp_path / "checkpoint_last.pt") == pytest.approx(said(method, ".resumed"), abs=1e-4)
