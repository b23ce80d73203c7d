"""--prompt-init through the command line, on data that says how its text was encoded."""

import pytest
import torch

from tests.folders import train
from tests.phrases import SINGLES, write_language_model, write_texts


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("init")
    write_texts(folder, "x", SINGLES)
    write_language_model(folder)
    return folder


def words(place, text):
    """Embeddings of a text's bytes: GPT-2 numbers the printable ones from '!' on, ids 0 to 3 are special."""
    table = torch.load(place / "model.pt", weights_only=True)["model"]["encoder.sentence_encoder.embed_tokens.weight"]
    return table[[4 + ord(sign) - ord("!") for sign in text]]


def test_words_and_labels(place, tmp_path):
    means = torch.stack([words(place, label).mean(0) for label in ("bad", "good")])
    usual = ["--backbone", place / "model.pt", "--method", "prompt-tuning", "--max-update", 1, "--lr", 0]
    for how, text, expected in (("text", "great", words(place, "great")), ("class-labels", "bad|good", means)):
        train(place / "x-bin", tmp_path / how, *usual, "--prompt-init", how, "--prompt-init-text", text)
        rows = torch.load(tmp_path / how / "checkpoint_last.pt", weights_only=True)["model"]["method.table"][0]
        torch.testing.assert_close(rows[: len(expected)], expected, atol=1e-6, rtol=0)
