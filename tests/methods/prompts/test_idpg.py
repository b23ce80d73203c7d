"""IDPG: its generator's variants, initial values and dropout, and its degeneration to prompt tuning."""

import pytest
import torch
from omegaconf import OmegaConf

from fairseq_idpg.backbone.injection import States
from fairseq_idpg.methods.base import Geometry
from fairseq_idpg.methods.registry import PRESETS
from fairseq_idpg.models.config import fill_method_options
from tests.contract import VECTORS, Row
from tests.helpers import TINY, enlarge, logits, model_args, pair_batch, tiny_model
from tests.plain import plain_prompt

WIDTH, LAYERS = TINY["encoder_embed_dim"], TINY["encoder_layers"]
SMALL = {"generator_hidden_size": 8, "prompt_length": 3}
RESIDUAL, LAYER_NORM = {"generator_residual": True}, {"generator_layer_norm": True}
RELEASED = {**RESIDUAL, "generator_residual_norm": "released"}
VARIANTS = (RESIDUAL, LAYER_NORM, {**RESIDUAL, **LAYER_NORM}, RELEASED, {**RELEASED, **LAYER_NORM})
PLACES = [{"prompt_insertion": "add", "prompt_layers": layers} for layers in ("first", "all")]
PHM = "bias generators.0.hidden_bias generators.0.down_a generators.0.down_b generators.0.up_b"
DNN = "bias generators.0.hidden_bias generators.0.down generators.0.up"


def by_hand(method, number, text):
    below = method.places[number] and method.from_previous_layer
    return plain_prompt(method, number, text.below[0] if below else text.sentence)


CONTRACT = {
    "m-idpg-phm": Row(
        *(137_232, f"{PHM} generators.0.up_a", by_hand),
        variants=(
            *({"generator_sharing": sharing} for sharing in "SL"),
            *({"representation": kind} for kind in ("backbone", "mean-pooled", "token-mean")),
            {"generator": "dnn", "representation": "backbone", "generator_sharing": "S"},
        ),
        published={"generator_dropout": 0.1, "generator_residual_norm": "paper"},
    ),
    "m-idpg-dnn": Row(221_200, DNN, by_hand),
    "m-idpg-phm-glove": Row(144_704, f"{PHM} generators.0.up_a", by_hand, options={"representation_width": VECTORS}),
    "s-idpg-phm": Row(
        *(107_776, PHM, by_hand),
        variants=tuple({**place, **variant} for place in PLACES for variant in VARIANTS),
    ),
    "s-idpg-dnn": Row(1_578_240, DNN, by_hand),
}


def build(**options):
    method = PRESETS[options["method"]].build(model_args(**options), Geometry(LAYERS, WIDTH, 2 * WIDTH)).eval()
    enlarge(method)
    return method


@pytest.mark.parametrize("single", [True, False])
def test_zero_generator_is_prompt_tuning_with_its_bias(single):
    """The paper's degeneration claim (Section 3.1): W = 0 leaves the bias, a task prompt."""
    generated = tiny_model(method="s-idpg-phm" if single else "m-idpg-phm", phm_n=4, **SMALL)
    tuning = tiny_model(method="prompt-tuning" if single else "p-tuning-v2", prompt_length=3)
    tuning.encoder.load_state_dict(generated.encoder.state_dict())
    tuning.classification_heads.load_state_dict(generated.classification_heads.state_dict())
    enlarge(generated.method)
    with torch.no_grad():
        for parameter in generated.method.generators.parameters():
            parameter.zero_()
        tuning.method.table.copy_(generated.method.bias)
        for position in range(5):
            assert torch.equal(logits(generated, pair_batch(), position), logits(tuning, pair_batch(), position))


def test_dropout_is_where_the_released_code_has_it():
    """On M(x) once for all layers, on the hidden layer each time; never on a previous layer's state."""
    method = build(method="m-idpg-phm", phm_n=4, generator_dropout=0.5, representation="backbone", **SMALL).train()
    method.generators[0].dropout.p = 0.0
    with torch.no_grad():
        method.bias.zero_()
    prompt_at = method.begin_pass(torch.randn(2, WIDTH))
    assert torch.equal(prompt_at(1, None), prompt_at(2, None))  # the same dropped M(x)
    assert not torch.equal(*(method.begin_pass(torch.ones(2, WIDTH))(1, None) for _ in range(2)))
    method.from_previous_layer = True
    below = States(torch.randn(1, 2, WIDTH))
    assert torch.equal(prompt_at(1, below), method.begin_pass(torch.zeros(2, WIDTH))(1, below))
    method.generators[0].dropout.p = 0.5
    assert not torch.equal(prompt_at(1, below), prompt_at(1, below))


def test_a_checkpoint_from_before_there_were_two_residuals_has_the_released_one():
    """It recorded every option that there was; a run has every option, none of them filled yet."""
    record = vars(model_args(method="s-idpg-phm", phm_n=4, generator_residual=True))
    del record["generator_residual_norm"]
    old, run = OmegaConf.create(record), OmegaConf.create({**record, "generator_residual_norm": None})
    plain = OmegaConf.create({**record, "generator_residual": False})
    for cfg in (old, run, plain):
        fill_method_options(cfg)
    assert [str(cfg.generator_residual_norm) for cfg in (old, run, plain)] == ["released", "paper", "paper"]


@torch.no_grad()
def test_the_residual_is_what_the_generator_reads_after_dropout():
    method = tiny_model(method="s-idpg-dnn", generator_residual=True, generator_dropout=0.5).method.train()
    for parameter in method.parameters():
        parameter.zero_()
    assert set(method.begin_pass(torch.ones(4, 32))(0, None).unique().tolist()) == {0.0, 2.0}
