"""Where a pass may begin: below that layer every method leaves the frozen backbone as it is."""

import pytest
import torch

from tests.helpers import PAD, enlarge, pair_batch, tiny_model

LAYERS = 4
HIGH = {"prompt_layers": "2,3"}
LATE = {"prompt_insertion": "late", **HIGH}
IDPG = {"method": "m-idpg-phm", "phm_n": 4, **LATE}
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0}
BEGINNINGS = [  # (options, k)
    ({"method": "lpt-mppg", **HIGH}, 2),
    ({"method": "lpt-naive", "prompt_layers": "3"}, 3),
    ({"method": "p-tuning-v2-kv", **HIGH}, 2),
    *(({"method": "id-spam", **HIGH, "generator_input": read}, 2) for read in ("words", "embeddings", "last")),
    *(({**IDPG, "representation": kind}, 2) for kind in ("backbone", "previous-layer", "token-mean")),
    ({"method": "attempt", "attempt_temperature": "1", **LATE}, 2),
    ({"method": "adapter-drop", "adapter_drop": "3"}, 3),
    ({"method": "adapter", "adapter_layers": "1,3"}, 1),
    ({"method": "id-spam+lora", "prompt_layers": "3", "lora_layers": "2,3"}, 2),
    ({"method": "head-only"}, LAYERS),
    ({"method": "head-on-representation"}, LAYERS - 1),
]


def made(**options):
    model = tiny_model(encoder_layers=LAYERS, **{**NO_DROPOUT, **options})
    enlarge(model)
    return model


def cached(model, tokens):
    """The states that enter the first layer, zeros at pads, as batches bring them."""
    with torch.no_grad():
        states = model.encoder.sentence_encoder.states_before(model.first_layer, tokens)
    return states * tokens.ne(PAD).t()[..., None]


def passed(model, tokens, **more):
    """(logits, gradients) of a training step with draws that are always the same."""
    model.train()
    model.zero_grad()
    torch.manual_seed(3)
    out, _ = model(tokens, classification_head_name="sentence_classification_head", **more)
    out.square().sum().backward()
    return [out, *(p.grad for p in model.parameters() if p.requires_grad)]


@pytest.mark.parametrize(("options", "layer"), BEGINNINGS)
def test_a_pass_from_given_states_is_the_same_bit_for_bit(options, layer):
    model = made(**options)
    assert model.first_layer == layer
    tokens = pair_batch()
    states, reached = cached(model, tokens), []
    for below in model.encoder.sentence_encoder.layers[:layer]:
        below.register_forward_pre_hook(lambda *_: reached.append(1))
    whole = passed(model, tokens)
    method = model.method
    alone = method is None or method.hides_pass or method.representation in (None, "token-mean")
    assert len(reached) == layer * (1 if alone else 2)  # another for M(x)
    reached.clear()
    begun = passed(model, tokens, states=states)
    assert not reached and len(whole) == len(begun)
    for one, other in zip(whole, begun):
        assert (one is None) == (other is None) and (one is None or torch.equal(one, other))
    changed = passed(model, tokens, states=2 * states)
    assert not torch.equal(changed[0], whole[0])


@pytest.mark.parametrize(
    "options",
    [
        *({"method": name} for name in ("prompt-tuning", "p-tuning-v2", "bitfit", "lora", "adapter", "fine-tuning")),
        *({"method": name, **LATE} for name in ("dept", "ept")),  # they change the words, too
        {"method": "adapter-drop", "adapter_drop": "2", "adapter_drop_random": True},
        {"method": "adapter", "adapter_layers": "3", "train_layer_norms": "true"},
        {"method": "lora", "lora_layers": "3", "no_freeze_backbone": True},
        {"method": "id-spam+bitfit", "prompt_layers": "3"},
        {"method": "m-idpg-phm", "phm_n": 4},
        {"method": "m-idpg-phm+lora", "phm_n": 4, "lora_layers": "3"},
    ],
)
def test_nothing_stays_the_same_below(options):
    assert tiny_model(encoder_layers=LAYERS, **options).first_layer == 0
