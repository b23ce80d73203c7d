"""--prompt-init through the command line, on data that says how its text was encoded."""

from __future__ import annotations

import pytest
import torch

from tests.folders import train, write_backbone, write_folder
from tests.preprocess.commands import run, write_vocab

BYTES = 256  # symbols of the small GPT-2 vocabulary


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("init")
    vocab = write_vocab(folder / "vocab")
    (folder / "x.tsv").write_text("".join(f"text {i}\t{i % 2}\n" for i in range(16)))
    files = [f"{split}={folder / 'x.tsv'}" for split in ("train", "valid")]
    columns = ["--no-header", "--text-columns", "1", "--label-column", "2"]
    arguments = ["x", "--from-tsv", *files, *columns, "--vocab", str(vocab), "--out", str(folder)]
    assert run(arguments) == 0
    write_backbone(folder / "model.pt", words=BYTES)
    return folder


def start(place, save_dir, *options, data="x-bin", **more):
    """The prompt table before any update (learning rate 0)."""
    usual = ["--backbone", place / "model.pt", "--method", "prompt-tuning", "--max-update", 1, "--lr", 0]
    finished = train(place / data, save_dir, *usual, *options, **more)
    if finished.status:
        return finished.last_line
    return torch.load(save_dir / "checkpoint_last.pt", weights_only=True)["model"]["method.table"][0]


def words(place, text):
    """Embeddings of a text's bytes: GPT-2 numbers the printable ones from '!' on, ids 0 to 3 are special."""
    table = torch.load(place / "model.pt", weights_only=True)["model"]["encoder.sentence_encoder.embed_tokens.weight"]
    return table[[4 + ord(sign) - ord("!") for sign in text]]


def test_words_and_labels(place, tmp_path):
    rows = start(place, tmp_path / "text", "--prompt-init", "text", "--prompt-init-text", "great")
    assert torch.equal(rows, words(place, "great"))
    rows = start(place, tmp_path / "labels", "--prompt-init", "class-labels", "--prompt-init-text", "bad|good")
    for row, label in zip(rows, ("bad", "good")):
        assert torch.allclose(row, words(place, label).mean(0), atol=1e-6)


def test_refused(place, tmp_path):
    """Words of three classes to start with, and two to learn; data that does not say how it was encoded."""
    write_folder(place / "plain", pairs=False, words=BYTES)
    for data, how, text, named in (
        ("x-bin", "class-labels", "a|b|c", "'a|b|c' has 3 texts, and there are 2 classes"),
        ("plain", "text", "great", "preprocess.json is missing"),
    ):
        options = ["--prompt-init", how, "--prompt-init-text", text]
        assert named in start(place, tmp_path, *options, data=data, succeed=False)
