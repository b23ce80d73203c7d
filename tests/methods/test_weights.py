"""The slot "weights": parameters of the backbone that a method names are trained, saved and counted with it."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg import count
from fairseq_idpg.methods.base import Method
from fairseq_idpg.methods.registry import PRESETS, Preset
from tests.helpers import ALWAYS_SAVED, logits, pair_batch, stock_twin, tiny_model
from tests.methods.adapters.presets import HEAD

ENCODER = "encoder.sentence_encoder."
PHM = {"phm_n": 4}


class Biases(Method):
    """Every bias of the backbone and nothing of its own, as BitFit has it."""

    def __init__(self, cfg, geometry):
        super().__init__()

    def trains(self, name):
        return name.endswith(".bias")

    def describe(self):
        return "biases"


@pytest.fixture(autouse=True)
def biases(monkeypatch):
    monkeypatch.setitem(PRESETS, "biases", Preset("biases", (Biases,), {}))


def weights(model) -> dict[str, torch.nn.Parameter]:
    return dict(model.encoder.sentence_encoder.named_parameters(prefix=ENCODER.rstrip(".")))


def all_biases(model) -> set[str]:
    return {name for name in weights(model) if name.endswith(".bias")}


def step(model) -> set[str]:
    """The names of the parameters that an update moves."""
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        logits(model.train(), pair_batch()).square().sum().backward()
        optimizer.step()
    return {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}


@pytest.mark.parametrize("other", ["", "+adapter", "+m-idpg-phm", "+compacter-shared"])
def test_what_is_named_moves_and_is_saved(other):
    model = tiny_model(method=f"biases{other}", **(PHM if "phm" in other else {}))
    expected = all_biases(model) | HEAD | {name for name, _ in model.named_parameters() if name.startswith("method.")}
    if other == "+compacter-shared":
        expected |= {name for name in weights(model) if "norm" in name}
    moved = step(model)
    assert moved <= expected and expected - moved <= {n for n in expected if n.endswith("k_proj.bias")}
    assert set(model.state_dict()) == expected | ALWAYS_SAVED


def test_gradients_are_those_of_stock_fairseq():
    model = tiny_model(method="biases")
    twin = stock_twin(model)
    twin.classification_heads = model.classification_heads
    for name, parameter in weights(twin).items():
        parameter.requires_grad_(name.endswith(".bias"))
    theirs = twin(pair_batch(), classification_head_name="sentence_classification_head")[0]
    found = []
    for ours, made in ((model, logits(model, pair_batch())), (twin, theirs)):
        made.square().sum().backward()
        found.append({name: weights(ours)[name].grad for name in all_biases(ours)})
    for name in found[0]:
        torch.testing.assert_close(found[0][name], found[1][name], atol=1e-6, rtol=1e-5)


def test_a_saved_model_is_loaded_onto_the_frozen_backbone():
    trained, fresh = tiny_model(method="biases"), tiny_model(method="biases")
    step(trained)
    fresh.load_state_dict({**trained.state_dict()})
    assert torch.equal(logits(fresh.eval(), pair_batch()), logits(trained.eval(), pair_batch()))


def test_count_of_bitfit():
    row = count.count_preset("roberta_idpg_large", "biases")
    assert (row.own, row.of_backbone) == (0, 271_360)
