"""The open encoder: equal to fairseq's when nothing is injected, and to a plain pass for each slot."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fairseq_idpg.backbone.injection import Injection, Prefix, add_rows, replace_rows
from tests.helpers import PAD, TINY, enlarge, pair_batch, stock_twin, tiny_model
from tests.plain import plain_embedding, plain_layer

LAYERS, WIDTH = TINY["encoder_layers"], TINY["encoder_embed_dim"]
T_PROMPT = 2
OFFSET = torch.tensor([1, 2, 4])


@pytest.fixture
def model():
    built = tiny_model(method="head-only")
    enlarge(built.encoder)
    return built


def with_placeholders(tokens: torch.Tensor, offset: torch.Tensor, count: int) -> torch.Tensor:
    rows = [torch.cat([row[:at], torch.full((count,), 3), row[at:]]) for row, at in zip(tokens, offset.tolist())]
    return torch.stack(rows)


def plain_pass(model, tokens, embedded=None, after=None, replace=False, prefix=None, adapters=None, query_delta=None):
    """T x d states of each example's real tokens, layer by layer."""
    stack, outputs = model.encoder.sentence_encoder, []
    for example, row in enumerate(tokens):
        at = int(OFFSET[example])
        x = plain_embedding(stack, row[row != PAD], None if embedded is None else embedded[example], at)
        for i, layer in enumerate(stack.layers):
            x = plain_layer(
                layer,
                x,
                prefix=prefix and [side[example] for side in prefix[i][:2]],
                adapters=adapters[i] if adapters else (None, None),
                query_delta=query_delta and query_delta[i],
            )
            if after and i in after:
                rows = after[i][example] + (0 if replace else x[at : at + T_PROMPT])
                x = torch.cat([x[:at], rows, x[at + T_PROMPT :]])
        outputs.append(x)
    return outputs


def assert_equal_pass(model, tokens, injection, expected):
    with model.encoder.sentence_encoder.injecting(injection):
        features, _ = model.encoder(tokens, features_only=True)
    for example, states in enumerate(expected):
        torch.testing.assert_close(features[example, : len(states)], states, atol=2e-5, rtol=0)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_bitwise_equal_to_fairseq_when_nothing_is_injected(training, frozen, padded):
    model = tiny_model(method="head-only", no_freeze_backbone=not frozen, dropout=0.1, attention_dropout=0.1)
    enlarge(model.encoder)
    model.train(training)
    twin = stock_twin(model)
    tokens = pair_batch() if padded else pair_batch()[:, :6]
    outputs = []
    for each in (model, twin):
        torch.manual_seed(7)
        outputs.append(each(tokens, features_only=True)[0])
    assert torch.equal(*outputs)


def test_keys_are_those_of_roberta(model):
    assert set(model.encoder.state_dict()) == set(stock_twin(model).encoder.state_dict())


def test_input_slot(model):
    tokens = with_placeholders(pair_batch(), OFFSET, T_PROMPT)
    rows = torch.randn(3, T_PROMPT, WIDTH)
    expected = plain_pass(model, tokens, embedded=rows)
    assert_equal_pass(model, tokens, Injection(embedded=rows, offset=OFFSET), expected)


@pytest.mark.parametrize("insertion", ["add", "replace"])
def test_hidden_slot(model, insertion):
    tokens = with_placeholders(pair_batch(), OFFSET, T_PROMPT)
    rows = torch.randn(3, T_PROMPT, WIDTH)
    after = {i: torch.randn(3, T_PROMPT, WIDTH) for i in range(LAYERS - 1)}
    injection = Injection(
        embedded=rows, offset=OFFSET, after_layer=lambda i, sentence: after.get(i), insertion=insertion
    )
    expected = plain_pass(model, tokens, embedded=rows, after=after, replace=insertion == "replace")
    assert_equal_pass(model, tokens, injection, expected)


def test_hidden_slot_hands_over_the_sentence_state(model):
    seen = []
    injection = Injection(offset=OFFSET, after_layer=lambda i, sentence: seen.append((i, sentence)))
    with model.encoder.sentence_encoder.injecting(injection):
        _, extra = model.encoder(pair_batch(), features_only=True, return_all_hiddens=True)
    assert [i for i, _ in seen] == list(range(LAYERS))
    for i, sentence in seen:
        assert torch.equal(sentence, extra["inner_states"][i + 1][0])


def test_key_value_slot(model):
    tokens = pair_batch()
    prefix = {i: Prefix(torch.randn(3, 4, WIDTH), torch.randn(3, 4, WIDTH)) for i in range(LAYERS)}
    key_value = lambda layer, sentence: prefix[layer]  # noqa: E731
    assert_equal_pass(model, tokens, Injection(key_value=key_value), plain_pass(model, tokens, prefix=prefix))


def test_key_value_slot_before_projection(model):
    """The rows pass through the layer's own projections; one set of rows for the whole batch."""
    rows = {i: Prefix(torch.randn(1, 4, WIDTH), torch.randn(1, 4, WIDTH), before_projection=True) for i in (0, 2)}
    attention = [layer.self_attn for layer in model.encoder.sentence_encoder.layers]
    none = (torch.empty(3, 0, WIDTH), torch.empty(3, 0, WIDTH))
    projected = {
        i: [project(side).expand(3, -1, -1) for project, side in zip((a.k_proj, a.v_proj), rows[i])]
        if i in rows
        else none
        for i, a in enumerate(attention)
    }
    key_value = lambda layer, sentence: rows.get(layer)  # noqa: E731
    tokens = pair_batch()
    assert_equal_pass(model, tokens, Injection(key_value=key_value), plain_pass(model, tokens, prefix=projected))


def test_key_value_slot_sees_the_sentence_below_each_layer(model):
    seen = []
    with torch.no_grad(), model.encoder.sentence_encoder.injecting(
        Injection(key_value=lambda layer, sentence: seen.append((layer, sentence)))
    ):
        _, extra = model.encoder(pair_batch(), features_only=True, return_all_hiddens=True)
    assert [i for i, _ in seen] == list(range(LAYERS))
    for i, sentence in seen:
        assert torch.equal(sentence, extra["inner_states"][i][0])


def test_sublayer_slot(model):
    """Each adapter sees the sublayer's output, the residual and the LayerNorm that closes the sublayer."""
    dense = nn.Linear(WIDTH, WIDTH)
    first = lambda f, x, norm: f + dense(norm(f + x))  # noqa: E731
    second = lambda f, x, norm: 2 * f - dense(x)  # noqa: E731
    adapters = {0: (first, None), 1: (None, first), 2: (second, first)}
    expected = plain_pass(model, pair_batch(), adapters=adapters)
    keys = set(model.encoder.state_dict())
    assert_equal_pass(model, pair_batch(), Injection(adapters=adapters.__getitem__), expected)
    assert set(model.encoder.state_dict()) == keys


def test_projection_slot(model):
    deltas = [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]
    expected = plain_pass(model, pair_batch(), query_delta=deltas)
    for layer, delta in zip(model.encoder.sentence_encoder.layers, deltas):
        layer.self_attn.q_proj.register_forward_hook(lambda _, args, out, delta=delta: out + delta(args[0]))
    assert_equal_pass(model, pair_batch(), Injection(), expected)


def test_nothing_stays_behind_even_after_an_error(model):
    before = model.encoder(pair_batch(), features_only=True)[0]
    injection = Injection(offset=OFFSET, after_layer=lambda i, sentence: 1 / 0)
    with pytest.raises(ZeroDivisionError), model.encoder.sentence_encoder.injecting(injection):
        model.encoder(pair_batch(), features_only=True)
    assert torch.equal(model.encoder(pair_batch(), features_only=True)[0], before)


def test_rows_reach_only_their_places():
    """T x B x d, whichever way it lies in memory; the second example has rows of its own."""
    offset = torch.tensor([1, 3])
    for x in (torch.zeros(6, 2, 3), torch.zeros(2, 6, 3).transpose(0, 1)):
        for write in (add_rows, replace_rows):
            out = write(x, torch.ones(1, 2, 3), offset).transpose(0, 1)
            assert out.sum(-1).tolist() == [[0, 3, 3, 0, 0, 0], [0, 0, 0, 3, 3, 0]]
            own = torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]]).expand(2, 2, 3)
            out = write(x, own, offset).transpose(0, 1)
            assert out.sum(-1).tolist() == [[0, 3, 6, 0, 0, 0], [0, 0, 0, 9, 12, 0]]
        assert not x.any()


def test_gradients_reach_every_row_and_no_backbone_weight(model):
    tokens = with_placeholders(pair_batch(), OFFSET, T_PROMPT)
    rows = torch.randn(3, T_PROMPT, WIDTH, requires_grad=True)
    deep = {i: torch.randn(3, T_PROMPT, WIDTH, requires_grad=True) for i in range(LAYERS - 1)}
    injection = Injection(embedded=rows, offset=OFFSET, after_layer=lambda i, sentence: deep.get(i))
    with model.encoder.sentence_encoder.injecting(injection):
        model.encoder(tokens, features_only=True)[0][:, 0].sum().backward()
    assert all(t.grad is not None and t.grad.abs().min() > 0 for t in (rows, *deep.values()))
    assert all(p.grad is None for p in model.encoder.parameters())
