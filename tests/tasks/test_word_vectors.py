"""--representation glove: rows of DATA/glove in the batch, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from fairseq_idpg.errors import InputError
from fairseq_idpg.tasks.word_vectors import load_vectors, vectors_width
from preprocess.data_folder import DataFolder
from preprocess.split_facts import token_digests
from tests.folders import train, validate, write_backbone, write_folder
from tests.tasks.test_dataset import make_task

WIDTH = 12


def write_vectors(folder: Path, width: int = WIDTH) -> dict[str, np.ndarray]:
    """As python -m preprocess glove leaves them."""
    data = DataFolder(folder)
    draw = np.random.RandomState(0)
    rows = {split: draw.randn(len(data.rows("input0", split)), width).astype(np.float32) for split in data.splits}
    (folder / "glove").mkdir(exist_ok=True)
    for split, vectors in rows.items():
        np.save(folder / "glove" / f"{split}.npy", vectors)
    digests = {name: digest for split in data.splits for name, digest in token_digests(data, split).items()}
    (folder / "glove" / "glove.json").write_text(json.dumps({"dim": width, "sha256": digests}))
    return rows


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "data")


def test_every_example_brings_its_row(folder):
    rows = write_vectors(folder)
    task = make_task(folder, swap_pairs="append")
    task.word_vectors = WIDTH
    dataset = task.load_dataset("train")
    order = [3, 0, 24 + 3, 47]  # exchanged pairs have the row of their pair
    batch = dataset.collater([dataset[i] for i in order])["net_input"]["representation"]
    assert torch.equal(batch, torch.from_numpy(rows["train"][[3, 0, 3, 23]]))
    plain = make_task(folder).load_dataset("valid")
    assert "representation" not in plain.collater([plain[0]])["net_input"]


def test_width_is_the_folders(folder):
    with pytest.raises(InputError, match="glove.json is missing or damaged: run python -m preprocess glove"):
        vectors_width(str(folder), 0)
    write_vectors(folder)
    assert vectors_width(str(folder), None) == vectors_width(str(folder), WIDTH) == WIDTH
    with pytest.raises(InputError, match="--representation-width 300, but the vectors in .* have 12"):
        vectors_width(str(folder), 300)


def test_files_that_do_not_fit(folder):
    write_vectors(folder)
    assert load_vectors(str(folder), "valid", 13, WIDTH).vectors.shape == (13, WIDTH)
    with pytest.raises(InputError, match=r"has shape \(13, 12\), not \(13, 8\)"):
        load_vectors(str(folder), "valid", 13, 8)
    (folder / "glove" / "valid.npy").write_bytes(b"damaged")
    with pytest.raises(InputError, match="valid.npy is missing or damaged"):
        load_vectors(str(folder), "valid", 13, WIDTH)
    tokens = folder / "input0" / "train.bin"
    tokens.write_bytes(tokens.read_bytes()[::-1])
    with pytest.raises(InputError, match="train.npy was made from other text"):
        load_vectors(str(folder), "train", 24, WIDTH)


def test_training_and_validation(folder, tmp_path):
    backbone = write_backbone(tmp_path / "model.pt")
    options = ["--backbone", backbone, "--method", "m-idpg-phm-glove", "--generator-hidden-size", 8]
    refused = train(folder, tmp_path / "none", *options, "--max-epoch", 1, succeed=False)
    assert "run python -m preprocess glove" in refused.last_line
    write_vectors(folder)
    run = train(folder, tmp_path / "run", *options, "--max-epoch", 2)
    assert "representation glove" in run.output
    saved = torch.load(tmp_path / "run" / "checkpoint_last.pt", weights_only=True)
    assert saved["cfg"]["model"]["representation_width"] == WIDTH
    assert saved["model"]["method.generators.0.down_b"].shape == (4, WIDTH // 4, 8 // 4)
    checked = validate(folder, tmp_path / "run" / "checkpoint_last.pt")
    assert checked.log("valid_loss") == pytest.approx(run.log("valid_loss")[-1:], abs=1e-3)
    write_vectors(folder, width=8)
    refused = validate(folder, tmp_path / "run" / "checkpoint_last.pt", succeed=False)
    assert "--representation-width 12, but the vectors" in refused.last_line
