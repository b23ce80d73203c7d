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


def start(place, save_dir, how, text, data="x-bin", **more):
    usual = ["--backbone", place / "model.pt", "--method", "prompt-tuning", "--max-update", 1, "--lr", 0]
    return train(place / data, save_dir, *usual, "--prompt-init", how, "--prompt-init-text", text, **more)


def words(place, text):
    """Embeddings of a text's bytes: GPT-2 numbers the printable ones from '!' on, ids 0 to 3 are special."""
    table = torch.load(place / "model.pt", weights_only=True)["model"]["encoder.sentence_encoder.embed_tokens.weight"]
    return table[[4 + ord(sign) - ord("!") for sign in text]]


def test_words_and_labels(place, tmp_path):
    means = torch.stack([words(place, label).mean(0) for label in ("bad", "good")])
    for how, text, expected in (("text", "great", words(place, "great")), ("class-labels", "bad|good", means)):
        start(place, tmp_path / how, how, text)
        rows = torch.load(tmp_path / how / "checkpoint_last.pt", weights_only=True)["model"]["method.table"][0]
        torch.testing.assert_close(rows[: len(expected)], expected, atol=1e-6, rtol=0)


def test_refused(place, tmp_path):
    """Words of three classes to start with, and two to learn; data that does not say how it was encoded."""
    write_folder(place / "plain", pairs=False, words=BYTES)
    refused = start(place, tmp_path, "class-labels", "a|b|c", succeed=False)
    assert "'a|b|c' has 3 texts, and there are 2 classes" in refused.last_line
    assert "preprocess.json is missing" in start(place, tmp_path, "text", "great", "plain", succeed=False).last_line
