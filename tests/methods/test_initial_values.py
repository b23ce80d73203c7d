"""Where parameters start: as in the code that the papers released, or in the library that it uses."""

import math

import pytest
import torch

from fairseq_idpg.methods.adapters.lora import LINEARS
from fairseq_idpg.methods.base import Geometry
from fairseq_idpg.methods.registry import PRESETS
from tests.helpers import model_args, tiny_model

WIDTH, INNER = 256, 1024


def uniform(bound: float) -> tuple[float, float]:
    """(standard deviation, largest value) of what is drawn evenly."""
    return bound / math.sqrt(3), bound


ZEROS = {"down_bias": 0, "up_bias": 0}
CUT = 0.88  # a normal distribution cut at two standard deviations keeps so much of its own
PHM = {f"generators.0.{name}": 0.05 for name in ("down_a", "down_b", "up_a", "up_b", "hidden_bias")}
DNN = {"generators.0.down": 0.02, "generators.0.up": 0.02, "generators.0.hidden_bias": 0}
ONCE = {"adapter_hidden_size": 64}
GENERATOR = {"generator_hidden_size": 256}
FACTORS = {"down_s": 64, "down_t": 16, "up_s": 16, "up_t": 64}  # and how long each is
GLOROTS = {name: uniform(math.sqrt(2) * math.sqrt(6 / (side + 1))) for name, side in FACTORS.items()}
KINDS = ("lstm", "mlp", "deep-mlp", "prefix-mlp")
CASES = [  # preset, options, name -> standard deviation, or that and the largest value
    ("adapter", ONCE, {"down": CUT * 1e-3, "up": CUT * 1e-3, **ZEROS}),
    ("adapter-pfeiffer", ONCE, {"down": CUT * 0.02, "up": CUT * 0.02, **ZEROS}),
    ("adapter-drop", ONCE, {"down": CUT * 1e-3, "up": CUT * 1e-3, **ZEROS}),
    ("adapter-scaled-parallel", ONCE, {"down": uniform(WIDTH**-0.5), "up": 0, **ZEROS}),
    ("adapter-multihead-parallel", ONCE, {"down": uniform((WIDTH / 4) ** -0.5), "up": 0, **ZEROS}),
    ("compacter", ONCE, {**dict.fromkeys(("a", *FACTORS, "down_bias"), 0.05), "up_bias": 0.02}),
    ("compacter-shared", ONCE, {"a": 1e-4, **GLOROTS, **ZEROS}),
    ("adamix", ONCE, {"experts.down.weight": CUT * 0.02, "experts.down.bias": 0, "up": CUT * 0.02, "up_bias": 0}),
    ("lora-all", {}, {f"a.{name}": uniform((INNER if name == "fc2" else WIDTH) ** -0.5) for name in LINEARS.values()}),
    ("lora-all", {}, {f"b.{name}": 0 for name in LINEARS.values()}),
    ("m-idpg-phm", GENERATOR, {**PHM, "bias": 0.02}),
    ("m-idpg-dnn", GENERATOR, {**DNN, "bias": 0.02}),
    ("s-idpg-dnn", GENERATOR, {**DNN, "bias": 0}),
    *((name, {}, {"table": 0.02}) for name in ("prompt-tuning", "p-tuning-v2", "p-tuning-v2-kv", "lpt-naive")),
    *((name, {**GENERATOR, "generator_bias": "true"}, {"bias": uniform(256**-0.5)}) for name in ("lpt-npg", "id-spam")),
    ("dept", {}, {"table": 0.02, "words.a": uniform(45**-0.5), "words.b": 0}),
    ("ept", {}, {f"reparameterization.experts.{name}": uniform(256**-0.5) for name in ("down", "up", "up_bias")}),
    ("adept", {}, {"down": uniform(19**-0.5), **dict.fromkeys(("down_bias", "up", "up_bias"), 0)}),
    ("ipl", {}, {f"{name}.weight": uniform(WIDTH**-0.5) for name in ("mlp.0", "mlp.2", "query", "key")}),
    ("lopa", {}, {f"gates.0.{side}_{way}.weight": 0.02 for side in ("row", "column") for way in ("down", "up")}),
    ("lopa", {}, {f"gates.0.{side}_up.bias": 0 for side in ("row", "column")}),
    ("attempt", {}, {"down.weight": 0.01, "up.weight": 0.01}),
    ("prefix-tuning", {}, {f"reparameterization.mlp.{i}.weight": uniform(n**-0.5) for i, n in ((0, WIDTH), (2, 512))}),
    *(("p-tuning", {"prompt_reparameterization": kind}, {"reparameterization.embedding": 1}) for kind in KINDS),
]


@pytest.mark.parametrize(("name", "options", "values"), CASES)
def test_initial_values(name, options, values):
    torch.manual_seed(0)
    method = PRESETS[name].build(model_args(method=name, **options), Geometry(8, WIDTH, INNER, heads=4))
    for key, expected in values.items():
        std, largest = expected if isinstance(expected, tuple) else (expected, math.inf)
        parameter = method.get_parameter(key)
        assert parameter.std().item() == pytest.approx(std, rel=0.2), key
        assert abs(parameter.mean().item()) <= 0.3 * std and parameter.abs().max() <= largest, key


def test_values_survive_the_models_own_initialisation():
    """RobertaModel draws every Linear again; a method attached too early would lose its values."""
    model = tiny_model(method="m-idpg-phm", prompt_length=16, generator_hidden_size=32)
    assert model.method.generators[0].down_b.std().item() == pytest.approx(0.05, rel=0.2)
