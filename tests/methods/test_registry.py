"""What holds for every ``--method``: it trains and saves what it says, and nothing else."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.backbone.encoder import layer_norms
from fairseq_idpg.methods.registry import PRESETS, find_preset
from tests.helpers import ALWAYS_SAVED, logits, pair_batch, tiny_model

HEAD = {f"classification_heads.sentence_classification_head.{n}" for n in ("dense", "out_proj")}
HEAD = {f"{layer}.{part}" for layer in HEAD for part in ("weight", "bias")}
PHM = {"bias", *(f"generators.0.{name}" for name in ("hidden_bias", "down_a", "down_b", "up_a", "up_b"))}
DNN = {"bias", *(f"generators.0.{name}" for name in ("hidden_bias", "down", "up"))}
LPT = {"bias", *(f"generators.0.{name}" for name in ("down.weight", "down.bias", "up.weight"))}
ID_SPAM = {f"generators.0.{name}.weight" for name in ("down", "up", "query", "key", "value")}
WORDS = {"words.a", "words.b"}
EXPERTS = {"down", "down_bias", "up", "up_bias", "gate.weight", "gate.bias"}
ADAPTER = {"down", "up", "down_bias", "up_bias"}
COMPACTER = {"a", "down_s", "down_t", "up_s", "up_t", "down_bias", "up_bias"}
LSTM = {f"lstm.{kind}_{gate}_l{layer}{way}" for kind in ("weight", "bias") for gate in ("ih", "hh") for layer in (0, 1)
        for way in ("", "_reverse")}  # fmt: skip
P_TUNING = {"embedding", "mlp.0.weight", "mlp.0.bias", "mlp.2.weight", "mlp.2.bias", *LSTM}
PREFIX_MLP = {
    f"reparameterization.{n}" for n in ("embedding", "mlp.0.weight", "mlp.0.bias", "mlp.2.weight", "mlp.2.bias")
}
OWN = {  # parameters of each method, in its checkpoints under "method."
    "head-only": set(),
    "head-on-representation": set(),
    "fine-tuning": set(),
    "efl": set(),
    "m-idpg-phm": PHM,
    "m-idpg-phm-glove": PHM,
    "m-idpg-dnn": DNN,
    "s-idpg-phm": PHM - {"generators.0.up_a"},
    "s-idpg-dnn": DNN,
    "prompt-tuning": {"table"},
    "prompt-tuning-100": {"table"},
    "prompt-tuning-134": {"table"},
    "spot": {"table"},
    "p-tuning": {f"reparameterization.{name}" for name in P_TUNING},
    "p-tuning-v2": {"table"},
    "p-tuning-v2-kv": {"table"},
    "prefix-tuning": PREFIX_MLP,
    "mam": {*(f"parts.0.{name}" for name in PREFIX_MLP), *(f"parts.1.{name}" for name in ADAPTER)},
    "dpt": {"reparameterization.a", "reparameterization.b"},
    "dept": {"table", *WORDS},
    "ept": {"reparameterization.rows", *(f"reparameterization.experts.{name}" for name in EXPERTS), *WORDS},
    "mpt": {f"reparameterization.{name}" for name in ("shared", "u", "v")},
    "smop": {"table", "router"},
    "attempt": {"table", "down.weight", "up.weight", "layer_norm.weight", "layer_norm.bias"},
    "lpt-naive": {"table"},
    "lpt-npg": LPT,
    "lpt-mppg": LPT,
    "lpt-appg": LPT,
    "id-spam": ID_SPAM,
    "adapter": ADAPTER,
    "adapter-pfeiffer": ADAPTER,
    "adapter-drop": ADAPTER,
    "adapter-parallel": ADAPTER,
    "adapter-scaled-parallel": ADAPTER,
    "adapter-multihead-parallel": ADAPTER,
    "adamix": {"experts.down.weight", "experts.down.bias", "up", "up_bias"},
    "bitfit": set(),
    "lora": {f"{which}.{name}_proj" for which in "ab" for name in "qv"},
    "lora-all": {f"{w}.{name}" for w in "ab" for name in ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2")},
    "compacter": COMPACTER,
    "compacter-shared": COMPACTER,
}
FOLDED = {  # saved besides
    **{name: {"table"} for name in ("p-tuning", "prefix-tuning", "dpt", "ept", "mpt")},
    "mam": {"parts.0.table"},
    "attempt": {"sources"},
    "adamix": {"down", "down_bias"},
}
TRAINS_BACKBONE = {"fine-tuning", "efl"}
TRAINS_LAYER_NORMS = {"compacter-shared"}
TRAINS_BIASES = {"bitfit"}


def build(method):
    options = {"phm_n": 4} if "phm" in method and "glove" not in method else {}
    if "glove" in method:
        options = {"representation_width": 8, "generator_hidden_size": 8}
    if method in ("prompt-tuning-100", "prompt-tuning-134", "dpt", "ept", "dept", "spot", "attempt", "mpt"):
        options["max_positions"] = 160
    model = tiny_model(method=method, **options)
    if "glove" in method:
        forward = model.forward
        model.forward = lambda *args, **more: forward(*args, representation=torch.ones(3, 8), **more)
    return model


def in_encoder(model, modules):
    ids = {id(parameter) for module in modules for parameter in module.parameters()}
    return {name for name, parameter in model.named_parameters() if id(parameter) in ids}


def trained_names(method, model):
    names = HEAD | {f"method.{name}" for name in OWN[method]}
    stack = model.encoder.sentence_encoder
    if method in TRAINS_BACKBONE:
        names |= in_encoder(model, [stack])
    if method in TRAINS_LAYER_NORMS:
        names |= in_encoder(model, layer_norms(stack))
    if method in TRAINS_BIASES:
        names |= {name for name in in_encoder(model, [stack]) if name.endswith(".bias")}
    return names


def saved_names(method, model):
    return trained_names(method, model) | {f"method.{name}" for name in FOLDED.get(method, ())} | ALWAYS_SAVED


def test_every_method_is_here():
    assert set(OWN) == set(PRESETS)


@pytest.mark.parametrize("method", sorted(PRESETS))
def test_training_moves_its_own_parameters_and_the_head(method):
    model = build(method).train()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    expected = trained_names(method, model)
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trainable, lr=0.1)
    for _ in range(2):  # what is multiplied by a zero at the start has no gradient in the first step
        optimizer.zero_grad()
        logits(model, pair_batch()).square().sum().backward()
        optimizer.step()
    moved = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    if method in TRAINS_BACKBONE:  # rows of symbols that do not occur stay, but the tables move
        assert moved <= expected and len(moved) > 0.9 * len(expected)
    else:
        unmoved = {name for name in expected if name.startswith("encoder.") and name.endswith("k_proj.bias")}
        assert moved | unmoved == expected  # softmax cancels the bias of keys: no gradient but rounding


@pytest.mark.parametrize("method", sorted(PRESETS))
def test_checkpoints_hold_exactly_what_is_trained(method):
    model = build(method)
    names = saved_names(method, model)
    keys = set(model.state_dict())
    if method in TRAINS_BACKBONE:  # and the LM head and fairseq's version mark, as a --backbone has them
        assert names <= keys and not any(key.startswith("method.") for key in keys)
    else:
        assert keys == names


@pytest.mark.parametrize("method", sorted(PRESETS))
def test_evaluation_is_deterministic_and_ignores_padding(method):
    model = build(method).eval()
    tokens = pair_batch()
    padded = torch.nn.functional.pad(tokens, (0, 4), value=1)
    with torch.no_grad():
        first, second, more = logits(model, tokens), logits(model, tokens), logits(model, padded)
    assert torch.equal(first, second) and torch.allclose(first, more, atol=1e-6)


PUBLISHED = {  # preset -> options as the papers or their code have them, which no equation or count shows
    "lora": {"lora_alpha": 16.0, "lora_dropout": 0.0},
    "lora-all": {"lora_alpha": 16.0},
    "compacter": {"adapter_dropout": 0.1, "adapter_activation": "gelu"},
    "compacter-shared": {"adapter_dropout": 0.0, "adapter_activation": "gelu_accurate"},
    "adapter-parallel": {"adapter_dropout": 0.1, "adapter_activation": "relu", "adapter_scale": "1"},
    "adapter-scaled-parallel": {"adapter_dropout": 0.1, "adapter_activation": "relu", "adapter_scale": "4"},
    "adapter-multihead-parallel": {"adapter_dropout": 0.1, "adapter_activation": "relu", "adapter_scale": "1"},
    "mam": {"adapter_dropout": 0.1, "adapter_activation": "relu", "adapter_scale": "4", "prefix_dropout": 0.0},
    "smop": {"prompt_init": "standard-normal", "smop_noise": "multiply"},
    "ept": {"prompt_init": "vocabulary", "ept_init_split": "first", "ept_init_align": "zeros"},
    "lpt-naive": {"prompt_init": "standard-normal"},
    "m-idpg-phm": {"generator_dropout": 0.1, "generator_residual_norm": "paper"},
    "lpt-npg": {"generator_dropout": 0.1},
    "id-spam": {"generator_dropout": 0.1, "id_spam_output": "relu", "generator_input": "words"},
    "spot": {"spot_similarity": "tokens"},
    "adamix": {"adamix_consistency": 1.0, "adapter_dropout": 0.0, "adapter_activation": "gelu"},
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_options_of_the_papers(name):
    defaults = find_preset(name).defaults
    assert {option: defaults[option] for option in PUBLISHED[name]} == PUBLISHED[name]
