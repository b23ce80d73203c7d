"""Each slot of the embedding and the layers against a pass that is written out plainly, in values and gradients."""

import pytest
import torch
from torch import Tensor, nn

from fairseq_idpg.backbone.injection import NO_ROOM, Additions, Injection, Prefix, Room, States
from tests.contract import exact
from tests.helpers import PAD, TINY, pair_batch, prompted, tiny_model
from tests.plain import plain_embedding, plain_layer

LAYERS, WIDTH = TINY["encoder_layers"], TINY["encoder_embed_dim"]
COUNT = 2  # rows of a prompt


def leaf(*shape: int) -> Tensor:
    return (torch.randn(*shape) * 0.5).requires_grad_()


class Reader(nn.Module):
    """Rows from all states of a sequence: W sum_i softmax_i(x_i q) x_i + b; in a batch, and of one example alone."""

    def __init__(self, count: int = COUNT):
        super().__init__()
        self.query = nn.Parameter(torch.randn(WIDTH) * 0.5)
        self.make = nn.Linear(WIDTH, count * WIDTH)

    def forward(self, states: States) -> Tensor:
        scores = states.x @ self.query  # T x B
        if states.padding is not None:
            scores = scores.masked_fill(states.padding.t(), float("-inf"))
        return self.make((scores.softmax(0)[..., None] * states.x).sum(0)).unflatten(1, (-1, WIDTH))

    def alone(self, x: Tensor) -> Tensor:
        """T x d -> rows x d."""
        weights = torch.stack([token @ self.query for token in x]).softmax(0)
        return self.make(sum(weight * token for weight, token in zip(weights, x))).view(-1, WIDTH)


def plain_pass(model, tokens, text=None, at=None, embedded=None, words=None, **slots) -> list[Tensor]:
    """T x d states of each example's real tokens, each example alone, layer by layer.

    ``embedded``: (example, T x d plain word embeddings of its text) -> rows; ``words``: example -> {index: what is
    added}; ``slots`` of a layer by its number: ``late`` and ``hidden`` (x, example) -> rows, ``prefix`` (x, example,
    attention) -> keys, values, ``adapters``, ``additions``.
    """
    stack, outputs = model.encoder.sentence_encoder, []
    for example, row in enumerate(tokens):
        ids, begin = row[row != PAD], None if at is None else int(at[example])
        rows = None
        if embedded is not None:
            own = text[example]
            own = torch.stack([stack.embed_tokens.weight[i] for i in own[own != PAD]])
            rows = embedded(example, own)
        x = plain_embedding(stack, ids, rows, begin or 0, words(example) if words else None)
        for i, layer in enumerate(stack.layers):
            if i in slots.get("late", {}):
                x = torch.cat([x, slots["late"][i](x, example)])
            x = plain_layer(
                layer,
                x,
                prefix=slots["prefix"][i](x, example, layer.self_attn) if i in slots.get("prefix", {}) else None,
                adapters=slots.get("adapters", {}).get(i, (None, None)),
                additions=slots.get("additions", {}).get(i),
            )
            if i in slots.get("hidden", {}):
                rows = slots["hidden"][i](x, example) + x[begin : begin + COUNT]
                x = torch.cat([x[:begin], rows, x[begin + COUNT :]])
        outputs.append(x[: len(ids)])
    return outputs


def check(model, tokens, injection, expected, leaves, room=NO_ROOM):
    """Equal states of all real tokens, and equal gradients, none of them zero; in either mode, pads told of or not."""
    draws = [torch.randn_like(states) for states in expected]
    theirs = torch.autograd.grad(sum((draw * states).sum() for draw, states in zip(draws, expected)), leaves)
    padded = bool(tokens.eq(PAD).any())
    for told, training in ((None, True), (padded, False), (True, True)):
        model.train(training)
        features, _ = model.encoder(tokens, features_only=True, injection=injection, room=room, padded=told)
        found = [features[example, : len(states)] for example, states in enumerate(expected)]
        for mine, states in zip(found, expected):
            torch.testing.assert_close(mine, states, atol=1e-10, rtol=0)
        ours = torch.autograd.grad(sum((draw * states).sum() for draw, states in zip(draws, found)), leaves)
        for mine, plain in zip(ours, theirs):
            assert plain.any()
            torch.testing.assert_close(mine, plain, atol=1e-8 * float(plain.abs().max()), rtol=0)


def make_room(tokens: Tensor, position: int = 0) -> tuple[Tensor, Room]:
    extra = prompted(tokens, position, COUNT)
    return extra.prompted_tokens, Room(extra.prompt_offset, COUNT, tokens)


def text_places(wide: Tensor, room: Room, position: int) -> list[list[int]]:
    """Of each example: where its text stands in the lengthened sequence, counted out."""
    found = []
    for example, row in enumerate(wide):
        begin, beside = int(room.offset[example]), 1 if position == 4 else 0
        block = range(begin - beside, begin + COUNT + beside)
        found.append([i for i in range(int(row.ne(PAD).sum())) if i not in block])
    return found


INNER = TINY["encoder_ffn_embed_dim"]
LINEARS = {"q_proj": (WIDTH, WIDTH), "k_proj": (WIDTH, WIDTH), "v_proj": (WIDTH, WIDTH), "out_proj": (WIDTH, WIDTH)}
LINEARS.update(fc1=(WIDTH, INNER), fc2=(INNER, WIDTH))


@pytest.fixture
def model(double_precision):
    """In double precision; what is injected must be made after it."""
    return exact(tiny_model(method="head-only", dropout=0.0, attention_dropout=0.0))


@pytest.fixture(params=[True, False], ids=["padded", "whole"])
def text(request):
    """Whole pairs, among which a prompt can stand; without pads three of one length."""
    row = pair_batch()[1:2]
    return pair_batch() if request.param else row + (row >= 10) * torch.arange(3)[:, None]


def test_all_slots_at_once(model, text):
    """A prefix before projection passes through what is added to the projections."""
    wide, room = make_room(text, 4)
    rows, words, prefix, deep = leaf(3, COUNT, WIDTH), leaf(5, WIDTH), leaf(1, 6, WIDTH), leaf(1, COUNT, WIDTH)
    reader, dense = Reader(), nn.Linear(WIDTH, WIDTH)
    added = {name: nn.Linear(*shape, bias=False) for name, shape in LINEARS.items()}
    change = (lambda f, x, norm: f + dense(x), None)
    injection = Injection(
        words=words,
        input=rows,
        hidden=lambda i, states: deep if i == 0 else None,
        late=lambda i, states: reader(states) if i == 1 else None,
        key_value=lambda i, states: Prefix(*prefix.chunk(2, 1), before_projection=True),
        sublayer=lambda i: change,
        projection=lambda i: Additions(**added),
    )
    places = text_places(wide, room, 4)

    def plain_prefix(x, example, attention):
        keys, values = prefix[0].chunk(2)
        return attention.k_proj(keys) + added["k_proj"](keys), attention.v_proj(values) + added["v_proj"](values)

    expected = plain_pass(
        model,
        wide,
        text,
        room.offset,
        lambda example, own: rows[example],
        words=lambda example: dict(zip(places[example], words)),
        hidden={0: lambda x, example: deep[0]},
        late={1: lambda x, example: reader.alone(x)},
        prefix=dict.fromkeys(range(LAYERS), plain_prefix),
        adapters=dict.fromkeys(range(LAYERS), change),
        additions=dict.fromkeys(range(LAYERS), added),
    )
    leaves = [rows, words, prefix, deep, *reader.parameters(), dense.weight, *(m.weight for m in added.values())]
    check(model, wide, injection, expected, leaves, room)


def test_half_precision():
    """Rows in float32 meet states in bfloat16. See tests/methods/test_contract.py for weights in bfloat16."""
    torch.set_default_dtype(torch.float32)
    model = tiny_model(method="prompt-tuning", prompt_length=COUNT, attention_dropout=0.1).train()
    wide, room = make_room(pair_batch(), 4)
    rows, words, prefix, reader = leaf(3, COUNT, WIDTH), leaf(5, WIDTH), leaf(1, 4, WIDTH), Reader()
    added = {name: nn.Linear(*shape, bias=False) for name, shape in LINEARS.items()}
    injection = Injection(
        words=words,
        input=rows,
        hidden=lambda i, states: rows,
        late=lambda i, states: reader(states) if i == 1 else rows,
        key_value=lambda i, states: Prefix(*prefix.chunk(2, 1), before_projection=i == 1),
        sublayer=lambda i: (lambda f, x, norm: f + norm(x), None),
        projection=lambda i: Additions(**added),
    )
    with torch.autocast("cpu", torch.bfloat16):
        features, _ = model.encoder(wide, features_only=True, injection=injection, room=room)
    features[:, 0].float().sum().backward()
    assert features.isfinite().all()
    leaves = [rows, words, prefix, *reader.parameters(), *(module.weight for module in added.values())]
    assert all(each.grad is not None and each.grad.isfinite().all() and each.grad.any() for each in leaves)


@pytest.mark.parametrize("position", range(5))
@pytest.mark.parametrize("count", [4, 30])
def test_words_around_a_prompt(model, text, position, count):
    """Prompt rows and their separators get none, and the prompt that is made from words sees them with theirs."""
    wide, room = make_room(text, position)
    rows, reader, places = leaf(count, WIDTH), Reader(), text_places(wide, room, position)

    def embedded(example, own):
        return reader.alone(torch.stack([own[i] + rows[i] if i < count else own[i] for i in range(len(own))]))

    words = lambda example: dict(zip(places[example], rows))  # noqa: E731
    expected = plain_pass(model, wide, text, room.offset, embedded, words)
    check(model, wide, Injection(words=rows, input=reader), expected, [rows, *reader.parameters()], room)
