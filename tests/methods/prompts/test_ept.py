"""EPT: its equation, where A and B start, and the ablations of its Table 2."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.prompts.ept import ALIGN, low_rank
from fairseq_idpg.models.prepare import check_method_effects
from tests.contract import Row
from tests.golden.golden2.case import FOLDER
from tests.helpers import tiny_model
from tests.models.started import started
from tests.plain import plain_linear_of

SMALL = {"method": "ept", "prompt_length": 3, "words_rank": 2, "words_length": 12, "ept_init_length": 6}


def row_of(method, p):
    """What becomes of one row p of P_s."""
    network = method.reparameterization
    new = p * (2 if network.fusion == "printed" else 1)
    if network.fusion == "lowrank":
        added = list(method.words.a @ method.words.b)
        scores = torch.stack([p @ other for other in added]) / p.numel() ** 0.5
        new = new + sum(share * other for share, other in zip(scores.softmax(0), added))
    experts = network.experts
    if experts is None:
        return new
    for i, gate in enumerate(plain_linear_of(experts.gate, p).softmax(0)):
        hidden = F.relu(p @ experts.down[i] + experts.down_bias[i, 0])
        new = new + gate * (hidden @ experts.up[i] + experts.up_bias[i, 0])
    return new


def by_hand(method, number, text):
    return torch.stack([row_of(method, p) for p in method.reparameterization.rows[number]])


NETWORK = ["rows", *(f"experts.{n}" for n in ("down", "down_bias", "up", "up_bias", "gate.weight", "gate.bias"))]
WITHOUT_WORDS = {"ept_decomposition": "false"}
CONTRACT = {
    "ept": Row(
        *(2_206_212, " ".join(["words.a", "words.b", *(f"reparameterization.{name}" for name in NETWORK)]), by_hand),
        added=lambda method: () if method.words is None else method.words.a @ method.words.b,
        **{"folded": 99_840, "kept": "table", "options": {"prompt_init": "normal"}},
        variants=(  # from the second on the components that its Table 2 leaves out
            *({**words, "ept_fusion": fusion} for words in ({}, WITHOUT_WORDS) for fusion in ("printed", "none")),
            {"ept_experts": 0},
            *({**words, "ept_fusion": "none", "ept_experts": 0} for words in ({}, WITHOUT_WORDS)),
        ),
        published={"prompt_init": "vocabulary", "ept_init_split": "first", "ept_init_align": "zeros"},
    )
}


def ept(**options):
    return started(**{**SMALL, **options})


@pytest.mark.skipif(not FOLDER.is_dir(), reason="golden numbers of the other systems are not here")
@pytest.mark.parametrize(("split", "theirs"), [("first", "us_v"), ("both", "sqrt"), ("none", "u_v")])
@pytest.mark.parametrize("align", ALIGN)
def test_factors_are_those_of_the_plain_reading(align, split, theirs):
    sizes = json.loads((FOLDER / "ept_init.json").read_text())["hyper"]
    with np.load(FOLDER / "ept_init.npz") as file:
        rows = ALIGN[align](torch.from_numpy(file["P"]), sizes["M"])
        assert np.array_equal(rows.numpy(), file[f"aligned/{align}"])
        a, b = low_rank(rows, sizes["r"], split)
        np.testing.assert_allclose((a @ b).numpy(), file[f"AB/{align}/{theirs}"], atol=2e-5)
        np.testing.assert_allclose(a.abs().numpy(), np.abs(file[f"A/{align}/{theirs}"]), atol=2e-5)


@pytest.mark.parametrize("layers", ["first", "all"])
@pytest.mark.parametrize("align", ALIGN)
def test_prompt_and_pair_start_from_one_long_prompt(align, layers):
    """All of whose rows are words; full rank gives them back. Its first rows are those of the first layer."""
    model = ept(ept_init_align=align, words_rank=12, prompt_layers=layers)
    vectors, method = model.encoder.sentence_encoder.embed_tokens.weight.detach(), model.method
    added = method.words().detach()
    torch.testing.assert_close(added[:3], method.reparameterization.rows[0], atol=1e-5, rtol=0)
    nearest = torch.cdist(added[:6], vectors).min(1)
    assert nearest.values.max() < 1e-4 and len(set(nearest.indices.tolist())) == 6
    behind = added[:6] if align == "repeat" else torch.zeros(6, 32)
    torch.testing.assert_close(added[6:], behind, atol=1e-5, rtol=0)


@pytest.mark.parametrize("split", ["first", "both", "none"])
def test_every_rank_can_be_trained(split):
    words = ept(words_rank=SMALL["ept_init_length"] + (split != "both"), ept_init_split=split).method.words
    words().pow(3).sum().backward()
    assert (words.a.grad.abs().amax(0) + words.b.grad.abs().amax(1) > 1e-9).all()


def test_a_prompt_may_be_longer_than_the_long_one():
    """Which is made as long."""
    assert ept(prompt_length=7, ept_init_length=5).method.reparameterization.rows.shape == (1, 7, 32)


def test_nothing_is_put_behind_a_prompt_that_is_long_enough():
    ept(ept_init_length=11, ept_init_align="repeat")
    for enough in ({"ept_init_length": 12}, {"prompt_length": 12}):
        with pytest.raises(InputError, match="--ept-init-align repeat"):
            ept(**enough, ept_init_align="repeat")


def test_options_of_a_start_that_is_not_made_have_no_effect():
    model = tiny_model(method="ept", prompt_init="saved")
    check_method_effects(model.args, model.method)
    model.args.ept_init_align = "repeat"
    with pytest.raises(InputError, match="--ept-init-align repeat"):
        check_method_effects(model.args, model.method)
