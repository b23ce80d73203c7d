"""The prompt that an input got, and the words that its rows resemble."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg import load
from fairseq_idpg.analysis.neighbours import generated_rows
from fairseq_idpg.errors import InputError
from tests.inference.conftest import inputs
from tests.inference.saved import write_checkpoint


def rows_of(found, layer: int = 0) -> torch.Tensor:
    """N x t x d."""
    return torch.stack([torch.stack([row.vector for row in p.prompts if row.layer == layer]) for p in found])


def made(place, folders, path, *options):
    return load(write_checkpoint(path, folders["pairs"], place / "backbone" / "model.pt", *options), device="cpu")


@pytest.mark.parametrize("insertion", ["add", "replace", "late"])
def test_rows_of_every_layer_are_those_that_were_generated(insertion, place, folders, tmp_path):
    options = ["--method", "m-idpg-dnn", "--prompt-length", 3, "--prompt-insertion", insertion]
    model = made(place, folders, tmp_path / "x.pt", *options)
    model.task.cfg.data = str(folders["pairs"])
    dataset = model.task.load_dataset("valid")
    net_input = dataset.collater([dataset[i] for i in range(16)])["net_input"]
    predictions = model.predict(inputs("pairs"), batch_size=4, prompts=True)
    assert all([row.layer for row in each.prompts] == [0, 0, 0, 1, 1, 1, 2, 2, 2] for each in predictions)
    for layer in range(3):
        expected = generated_rows(model.model, model.model.method, net_input, layer)
        found = rows_of(predictions, layer)
        assert found.shape == (16, 3, 32) and torch.allclose(found, expected, atol=1e-5)
        assert (found[0] - found[1]).abs().max() > 1e-4
    assert predictions[0].plain()["prompt_layers"] == [row.layer for row in predictions[0].prompts]


def test_rows_belong_to_whoever_asked(place, folders, tmp_path):
    """Of a prompt for all inputs, too, they are numbers of their own, not the model's parameter."""
    model = made(place, folders, tmp_path / "x.pt", "--method", "p-tuning-v2", "--prompt-length", 3)
    first, second = ([row.vector for row in p.prompts] for p in model.predict(inputs("pairs")[:2], prompts=True))
    expected = model.model.method.table.flatten(0, 1).clone()
    first[0].numpy()[:] = 100  # refused of what has a gradient
    assert torch.equal(torch.stack(second), expected)
    assert torch.equal(model.model.method.table.flatten(0, 1), expected)


def test_nearest_words(place, folders, tmp_path):
    """A row that is a word's embedding resembles this word most."""
    model = made(place, folders, tmp_path / "x.pt", "--method", "prompt-tuning", "--prompt-length", 2)
    embeddings = model.model.encoder.sentence_encoder.embed_tokens.weight
    word = model.text.encode(["Q"])[0][0]
    with torch.no_grad():
        model.model.method.table[0, 1] = 2 * embeddings[word]
    _, row = model.predict([("a", "b")], prompts=True, words=3)[0].prompts
    assert row.words[0][0] == "'Q'" and abs(row.words[0][1] - 1) < 1e-5
    assert len(row.words) == 3 and row.words[1][1] < 0.999
    with pytest.raises(InputError, match="words 1000"):
        model.predict([("a", "b")], prompts=True, words=1000)
