"""Prediction in int8: its arithmetic, what it leaves as it is, where it is refused."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fairseq_idpg import load
from fairseq_idpg.errors import InputError
from fairseq_idpg.inference import int8
from fairseq_idpg.inference.folder import load_on_folder, predict_split
from fairseq_idpg.inference.int8 import Int8Linear, multiplies_exactly
from tests.folders import ROOT
from tests.inference.conftest import inputs
from tests.inference.saved import write_checkpoint

needs_instructions = pytest.mark.skipif(not multiplies_exactly(), reason="a CPU without instructions for int8")
TOLERANCE = 0.015  # of probabilities; tests/inference/test_methods.py compares every method


def linear(read: int, made: int, scale: float = 1.0) -> nn.Linear:
    found = nn.Linear(read, made)
    found.weight.data *= scale
    return found


def by_hand(of: nn.Linear, x: np.ndarray) -> np.ndarray:
    """As the docstring of Int8Linear has it, a token and a row at a time."""
    weight, bias = of.weight.detach().double().numpy(), of.bias.detach().double().numpy()
    out = np.empty((len(x), len(weight)))
    for t, token in enumerate(x.astype(float)):
        middle, step = (token.max() + token.min()) / 2, (token.max() - token.min()) / 254
        restored = middle + step * np.rint((token - middle) / step) if step else token
        for i, row in enumerate(weight):
            of_row = np.abs(row).max() / 127
            out[t, i] = (of_row * np.rint(row / of_row)) @ restored + bias[i]
    return out


@needs_instructions
@settings(max_examples=30)
@given(
    seed=st.integers(0, 1000),
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 70), st.integers(1, 70)),
    scale=st.sampled_from([1e-3, 1.0, 300.0]),
    shift=st.sampled_from([0.0, -5.0]),
)
def test_is_what_it_says(seed, sizes, scale, shift):
    torch.manual_seed(seed)
    tokens, read, made = sizes
    of, x = linear(read, made, scale), scale * (torch.randn(tokens, read) + shift)
    with torch.no_grad():
        found = Int8Linear(of)(x)
    step, weight = (x.amax(1) - x.amin(1)) / 254, of.weight.detach().abs()
    expected = torch.from_numpy(by_hand(of, x.numpy())).float()
    # a number may be rounded the other way than by hand
    one_number = 2 * step[:, None] * weight.amax(1) + x.abs().amax(1)[:, None] * weight.amax(1) / 127
    assert ((found - expected).abs() <= one_number + 1e-4 * expected.abs() + 1e-6).all()


@needs_instructions
def test_pads_and_numbers_that_are_none_and_gradients():
    layer = Int8Linear(linear(8, 4))
    with torch.no_grad():
        assert torch.allclose(layer(torch.zeros(2, 8)), layer.bias.expand(2, 4), atol=1e-6)
        found = layer(torch.stack([torch.ones(8), torch.full((8,), float("nan")), torch.eye(8)[0] / 0]))
    assert found.isfinite().all(1).tolist() == [True, False, False] and not list(layer.parameters())
    with pytest.raises(InputError, match="has no gradient"):
        layer(torch.randn(2, 8, requires_grad=True))


def probabilities(predictions) -> np.ndarray:
    return np.array([list(prediction.probabilities.values()) for prediction in predictions])


@needs_instructions
def test_a_model_says_nearly_the_same(place, folders, tmp_path):
    backbone = place / "backbone" / "model.pt"
    path = write_checkpoint(tmp_path / "x.pt", folders["pairs"], backbone, "--method", "lora-all")
    models = [load(path, device="cpu", int8=int8) for int8 in (False, True)]
    usual, found = (probabilities(model.predict(inputs("pairs"), 5)) for model in models)
    assert 0 < np.abs(found - usual).max() < TOLERANCE < np.ptp(usual[:, 0]) / 5
    stack = models[1].model.encoder.sentence_encoder
    assert len([module for module in stack.modules() if isinstance(module, Int8Linear)]) == 6 * len(stack.layers)
    assert not any(isinstance(module, nn.Linear) for module in stack.layers.modules())

    model, task = load_on_folder(str(path), str(folders["pairs"]), cpu=True, int8=True)
    outputs = torch.from_numpy(predict_split(model, task, "valid", 5).outputs).softmax(1).numpy()
    assert outputs == pytest.approx(found, abs=1e-6)


def test_a_cpu_without_its_instructions_is_refused(idpg, monkeypatch):
    monkeypatch.setattr(int8, "multiplies_exactly", lambda: False)
    with pytest.raises(InputError, match="int8"):
        load(idpg("singles"), device="cpu", int8=True)


@needs_instructions
@pytest.mark.skipif("avx512" not in torch.backends.cpu.get_cpu_capability().lower(), reason="not of this family")
def test_wrong_products_are_noticed():
    """torch's library, told to do without VNNI, adds in 16 bits."""
    code = "from fairseq_idpg.inference.int8 import multiplies_exactly; print(multiplies_exactly())"
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == "False", done.stderr
