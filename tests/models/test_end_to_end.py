"""Golden cases of our own: tokens to logits, every step written out plainly, and gradients that go through M(x)."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from fairseq_idpg.backbone.encoder import layer_norms
from tests.helpers import PAD, enlarge, logits, pair_batch, prompted, single_batch, tiny_model
from tests.plain import plain_embedding, plain_layer, plain_matrix, plain_prompt, plain_representation

SMALL = {"generator_hidden_size": 8, "prompt_length": 3, "generator_dropout": 0.0}


def by_definition(method, row, c):
    return plain_prompt(method, row, c)


def plain_logits(model, method, ids, prompted_ids, at, rows_of=by_definition):
    """One example: M(x), its prompts layer by layer, and the head on <s>."""
    stack, m_of_x = model.encoder.sentence_encoder, plain_representation(model.encoder.sentence_encoder, ids)

    def rows(place, sentence):
        return rows_of(method, method.places.index(place), sentence if place and method.from_previous_layer else m_of_x)

    x = plain_embedding(stack, prompted_ids, rows(0, None), at)
    for i, layer in enumerate(stack.layers):
        x = plain_layer(layer, x)
        if i + 1 in method.places:
            delta = rows(i + 1, x[0])
            x = torch.stack([x[j] + delta[j - at] if at <= j < at + len(delta) else x[j] for j in range(len(x))])
    head = model.classification_heads["sentence_classification_head"]
    return head.out_proj(torch.tanh(head.dense(x[0])))


@pytest.mark.parametrize("representation", ["previous-layer", "backbone"])
@pytest.mark.parametrize(("name", "batch"), [("pairs", pair_batch), ("singles", single_batch)])
@pytest.mark.parametrize("method", ["m-idpg-phm", "m-idpg-dnn", "s-idpg-phm"])
def test_tokens_to_logits(method, name, batch, representation):
    phm = {"phm_n": 4} if "phm" in method else {}
    model = tiny_model(method=method, representation=representation, **SMALL, **phm)
    enlarge(model)
    tokens = batch()
    with torch.no_grad():
        for position in range(5) if name == "pairs" else (0, 1, 4):
            extra = prompted(tokens, position, 3)
            ours = logits(model, tokens, position)
            for i, row in enumerate(tokens):
                wide = extra.prompted_tokens[i]
                place = row[row != PAD], wide[wide != PAD], int(extra.prompt_offset[i])
                expected = plain_logits(model, model.method, *place)
                torch.testing.assert_close(ours[i], expected, atol=2e-5, rtol=2e-5)


def flowing(method, row, c):
    """The generated rows, number by number, with their gradient to c."""
    generator, bias = method.generators[row % len(method.generators)], method.bias[row % len(method.bias)]
    down, up = (plain_matrix(generator, which).float() for which in ("down", "up"))
    hidden = [F.gelu(sum(c * down[:, k]) + generator.hidden_bias[k]) for k in range(down.size(1))]
    flat = [sum(hidden[k] * up[k, o] for k in range(len(hidden))) for o in range(up.size(1))]
    return torch.stack(flat).view(bias.shape) + bias


def cut(method, row, c):
    return flowing(method, row, c.detach())


def gradients(model, names, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if name in names and p.grad is not None}


def plain_gradients(model, method, names, rows_of):
    tokens = pair_batch()
    extra, loss = prompted(tokens, 0, 3), 0.0
    for i, row in enumerate(tokens):
        wide = extra.prompted_tokens[i]
        place = row[row != PAD], wide[wide != PAD], int(extra.prompt_offset[i])
        loss = loss + plain_logits(model, method, *place, rows_of=rows_of).square().sum()
    return gradients(model, names, loss)


def check(model, method, names):
    """That gradients of ``names`` are those of the plain pass, which differ from those of a pass cut at M(x)."""
    ours = gradients(model, names, logits(model, pair_batch()).square().sum())
    expected, cut_off = (plain_gradients(model, method, names, rows_of) for rows_of in (flowing, cut))
    assert ours.keys() == expected.keys() and len(ours) == len(names)
    for name, gradient in expected.items():
        scale = gradient.abs().max().clamp(min=1e-2)
        assert ((ours[name] - gradient) / scale).abs().max() < 1e-4, name
    assert any(not torch.allclose(gradient, cut_off[name], rtol=0.1) for name, gradient in expected.items())


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("s-idpg-phm", {"phm_n": 4}),
        ("m-idpg-dnn", {"representation": "backbone"}),
        ("m-idpg-phm", {"phm_n": 4, "prompt_layers": "0,2"}),
    ],
    ids=["input", "all layers", "previous layer"],
)
def test_gradients_of_the_encoder_are_those_of_a_plain_pass(method, options):
    model = tiny_model(method=method, no_freeze_backbone=True, **SMALL, **options)
    enlarge(model.method)
    stack = model.encoder.sentence_encoder
    names = {name for name, p in model.named_parameters() if any(p is own for own in stack.parameters())}
    check(model, model.method, names)


def test_layer_norms_that_are_trained_with_adapters_too():
    """Adapters whose output is 0 leave the plain pass as it is."""
    model = tiny_model(method="m-idpg-phm+adapter", phm_n=4, train_layer_norms="true", **SMALL)
    prompts, adapters = model.method.parts
    enlarge(prompts)
    with torch.no_grad():
        adapters.up.zero_()
    own = [p for norm in layer_norms(model.encoder.sentence_encoder) for p in norm.parameters()]
    check(model, prompts, {name for name, p in model.named_parameters() if any(p is each for each in own)})


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("dropout", [False, True])
def test_evaluation_mode_and_gradient_are_two_things(trained, dropout):
    """M(x) has a gradient if and only if the backbone is trained; dropout only on request; no mode stays changed."""
    options = {"no_freeze_backbone": trained, "representation_dropout": dropout, "dropout": 0.5}
    model = tiny_model(method="s-idpg-phm", phm_n=4, **options).train()
    seen, begin_pass = [], model.method.begin_pass
    model.method.begin_pass = lambda representation: (seen.append(representation), begin_pass(representation))[1]
    logits(model, pair_batch()).sum().backward()
    assert seen[0].requires_grad == trained
    assert all(module.training for module in model.encoder.modules())
    plain = model.eval().encoder(pair_batch(), features_only=True)[0][:, 0]
    assert torch.allclose(seen[0], plain, atol=1e-5) != dropout
    with torch.no_grad():
        logits(model, pair_batch())
    assert not seen[1].requires_grad
