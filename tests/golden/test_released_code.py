"""Equality with the paper's released code: weights, inputs, states, logits and gradients it produced.

Every file goes through checkpoints/convert_released.py. The golden files are not part of the project; the tests skip
where they are absent.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fairseq.data import Dictionary

from checkpoints.convert_released import convert, method_tensors
from fairseq_idpg.backbone.encoder import OpenRobertaEncoder
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from fairseq_idpg.representations.kinds import sentence_representation
from tests.helpers import PAD, dictionary_of, prompted

GOLDEN = Path(os.environ.get("GOLDEN_DIR") or Path(__file__).parents[3] / "shared" / "golden")
CASES = sorted(p.stem for p in GOLDEN.glob("*.npz"))
pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="golden numbers of the released code are not here")


def load_converted(checkpoint, symbols):
    """A converted checkpoint as a model in evaluation mode, with the dictionary it was trained with; strict."""
    dictionary = dictionary_of(symbols[Dictionary().nspecial :])
    cfg = checkpoint["cfg"]
    args = argparse.Namespace(**{**cfg["model"], "max_positions": cfg["task"]["max_positions"]})
    model = RobertaIDPGModel(args, OpenRobertaEncoder(args, dictionary))
    model.register_classification_head("sentence_classification_head", num_classes=cfg["task"]["num_classes"])
    model.load_state_dict(checkpoint["model"], strict=True)
    return model.eval()


@pytest.fixture(params=CASES or ["absent"], scope="module")
def case(request, tmp_path_factory):
    """(model, tokens, what the task adds to a batch, golden arrays, what the golden file says of itself)."""
    meta = json.loads((GOLDEN / f"{request.param}.json").read_text())
    arrays = dict(np.load(GOLDEN / f"{request.param}.npz"))
    source = tmp_path_factory.mktemp("released") / "checkpoint_best.pt"
    parameters = {name[6:]: torch.from_numpy(value) for name, value in arrays.items() if name.startswith("param/")}
    torch.save({"args": argparse.Namespace(**meta["args"]), "model": parameters}, source)
    model = load_converted(convert(source), meta["symbols"])
    tokens = torch.from_numpy(arrays["tokens"])
    extra = {}
    if model.prompt_length:
        extra = vars(prompted(tokens, meta["args"]["insert_position"], model.prompt_length))
    if "glove/features" in arrays:
        extra["representation"] = torch.from_numpy(arrays["glove/features"])
    return model, tokens, extra, arrays, meta


def close(ours: torch.Tensor, golden: np.ndarray, tolerance: float, what: str) -> None:
    difference = (ours.detach() - torch.from_numpy(golden)).abs().max().item()
    assert difference <= tolerance, f"{what}: {difference:.2e} > {tolerance:.0e}"


def test_all_expected_cases_are_there():
    assert len(CASES) == 21


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
    close(sentence_representation(model.encoder, tokens), arrays["first_pass_cls"], 1e-4, "M(x)")


def test_loss_and_gradients(case):
    model, tokens, extra, arrays, meta = case
    model.zero_grad()
    out, _ = model(tokens, **extra, classification_head_name="sentence_classification_head")
    loss = F.nll_loss(F.log_softmax(out, -1), torch.from_numpy(arrays["targets"]).long(), reduction="sum")
    loss.backward()
    close(loss, arrays["loss"], 2e-5, "loss")
    ours = {n: p.grad for n, p in model.named_parameters() if p.requires_grad}
    # of long lists of small tensors (compacter) the file keeps the first few gradients: the rest is NaN, not compared
    absent = {f"grad/{n}": arrays[f"param/{n}"] * np.nan for n in meta["trainable"] if "compacter" in n}
    stored = {n[5:]: torch.from_numpy(g) for n, g in {**absent, **arrays}.items() if n.startswith("grad/")}
    golden = {name: value for name, value in stored.items() if name.startswith("classification_heads.")}
    golden.update({f"method.{name}": value for name, value in method_tensors(stored, vars(model.args)).items()})
    assert set(ours) == set(golden)
    for name, gradient in golden.items():
        assert ours[name] is not None, name
        known = ~gradient.isnan()
        assert known.any(), name
        scale = max(1e-3, gradient[known].abs().max().item())
        close(ours[name][known] / scale, gradient[known].numpy() / scale, 1e-4, f"gradient of {name}")
