"""Equality with the paper's released code: weights, inputs, states, logits and gradients it produced.

The golden files are not part of the project; the tests skip where they are absent.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fairseq.data import Dictionary

from tests.golden.released_names import our_gradients, our_options, our_state
from tests.helpers import PAD, prompted, tiny_model

GOLDEN = Path(__file__).parents[3] / "shared" / "golden"
OTHER_METHODS = ("mode2", "glove", "adapter", "compacter")  # not prompts at the input and hidden slots
CASES = sorted(p.stem for p in GOLDEN.glob("*.npz") if not any(word in p.stem for word in OTHER_METHODS))

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="golden numbers of the released code are not here")


@pytest.fixture(params=CASES or ["absent"], scope="module")
def case(request):
    """(model, tokens, what the task adds to a batch, golden arrays, golden options)."""
    meta = json.loads((GOLDEN / f"{request.param}.json").read_text())
    arrays = dict(np.load(GOLDEN / f"{request.param}.npz"))
    symbols = Dictionary()
    for symbol in meta["symbols"][symbols.nspecial :]:
        symbols.add_symbol(symbol)
    model = tiny_model(symbols=symbols, **our_options(meta["args"]))
    parameters = {name[6:]: torch.from_numpy(value) for name, value in arrays.items() if name.startswith("param/")}
    model.backbone_loaded = False  # the file brings the whole encoder
    model.load_state_dict(our_state(parameters, model), strict=True)
    tokens = torch.from_numpy(arrays["tokens"])
    extra = vars(prompted(tokens, meta["args"]["insert_position"], model.prompt_length)) if model.prompt_length else {}
    return model, tokens, extra, arrays, meta


def close(ours: torch.Tensor, golden: np.ndarray, tolerance: float, what: str) -> None:
    difference = (ours.detach() - torch.from_numpy(golden)).abs().max().item()
    assert difference <= tolerance, f"{what}: {difference:.2e} > {tolerance:.0e}"


def test_all_expected_cases_are_there():
    assert len(CASES) >= 15


def test_prompt_places(case):
    _, _, extra, arrays, _ = case
    if extra:
        assert extra["prompt_offset"].tolist() == arrays["stop_idxs"].tolist()


def test_positions_and_padding(case):
    model, tokens, extra, arrays, _ = case
    row = extra.get("prompted_tokens", tokens)
    if "padding_mask" in arrays:
        assert (row.eq(PAD).numpy() == arrays["padding_mask"].astype(bool)).all()
    if "position_ids" in arrays:
        ids = (row.ne(PAD).cumsum(1) * row.ne(PAD) + PAD).numpy()
        assert (ids == arrays["position_ids"]).all()


def test_features_states_and_logits(case):
    model, tokens, extra, arrays, _ = case
    row = extra.get("prompted_tokens", tokens)
    real = row.ne(PAD)
    with torch.no_grad():
        features, more = model(tokens, **extra, features_only=True, return_all_hiddens=True)
        out, _ = model(tokens, **extra, classification_head_name="sentence_classification_head")
    close(features[real], arrays["features"][real.numpy()], 1e-4, "features")
    close(out, arrays["logits"], 2e-5, "logits")
    stored = {int(name[6:]): value for name, value in arrays.items() if name.startswith("inner/")}
    assert {0, len(more["inner_states"]) - 1} <= set(stored)
    for i, golden in stored.items():
        state = more["inner_states"][i]
        close(state.transpose(0, 1)[real], golden.transpose(1, 0, 2)[real.numpy()], 1e-4, f"state {i}")


def test_representation(case):
    model, tokens, _, arrays, _ = case
    if "first_pass_cls" not in arrays:
        pytest.skip("the method reads no representation")
    from fairseq_idpg.backbone.representation import sentence_representation

    close(sentence_representation(model.encoder, tokens), arrays["first_pass_cls"], 1e-4, "M(x)")


def test_loss_and_gradients(case):
    model, tokens, extra, arrays, _ = case
    model.zero_grad()
    out, _ = model(tokens, **extra, classification_head_name="sentence_classification_head")
    loss = F.nll_loss(F.log_softmax(out, -1), torch.from_numpy(arrays["targets"]).long(), reduction="sum")
    loss.backward()
    close(loss, arrays["loss"], 2e-5, "loss")
    ours = {n: p.grad for n, p in model.named_parameters() if p.requires_grad}
    golden = our_gradients({n[5:]: torch.from_numpy(g) for n, g in arrays.items() if n.startswith("grad/")}, model)
    assert set(ours) == set(golden)
    for name, gradient in golden.items():
        assert ours[name] is not None, name
        scale = max(1.0, gradient.abs().max().item())
        close(ours[name] / scale, gradient.numpy() / scale, 1e-4, f"gradient of {name}")
