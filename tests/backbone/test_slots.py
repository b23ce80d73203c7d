"""Each slot of the open encoder against a pass that is written out plainly, in values and gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fairseq_idpg.backbone.injection import (
    NO_PLACE,
    Additions,
    Injection,
    Place,
    Prefix,
    States,
    add_rows,
    add_to_prompted_words,
    add_to_words,
    replace_rows,
)
from tests.helpers import PAD, TINY, enlarge, pair_batch, prompted, single_batch, tiny_model
from tests.plain import plain_embedding, plain_layer

LAYERS, WIDTH, INNER = TINY["encoder_layers"], TINY["encoder_embed_dim"], TINY["encoder_ffn_embed_dim"]
COUNT = 2  # rows of a prompt
LINEARS = {"q_proj": (WIDTH, WIDTH), "k_proj": (WIDTH, WIDTH), "v_proj": (WIDTH, WIDTH), "out_proj": (WIDTH, WIDTH)}
LINEARS.update(fc1=(WIDTH, INNER), fc2=(INNER, WIDTH))


@pytest.fixture(autouse=True)
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def model():
    built = tiny_model(method="head-only", dropout=0.0, attention_dropout=0.0)
    enlarge(built.encoder)
    for layer in built.encoder.sentence_encoder.layers:
        layer.activation_fn = nn.functional.gelu  # fairseq's own rounds to float32
    return built


@pytest.fixture(params=[True, False], ids=["padded", "whole"])
def tokens(request):
    return pair_batch() if request.param else pair_batch()[:, :6]


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
    attention) -> keys, values, ``adapters``, ``additions``; ``replaced``: whether ``hidden`` replaces.
    """
    stack, outputs = model.encoder.sentence_encoder, []
    of = {name: value if isinstance(value, dict) else {} for name, value in slots.items()}
    for example, row in enumerate(tokens):
        ids, begin = row[row != PAD], None if at is None else int(at[example])
        rows = None
        if embedded is not None:
            own = text[example]
            own = torch.stack([stack.embed_tokens.weight[i] for i in own[own != PAD]])
            rows = embedded(example, own)
        x = plain_embedding(stack, ids, rows, begin or 0, words(example) if words else None)
        for i, layer in enumerate(stack.layers):
            if i in of.get("late", {}):
                x = torch.cat([x, of["late"][i](x, example)])
            x = plain_layer(
                layer,
                x,
                prefix=of["prefix"][i](x, example, layer.self_attn) if i in of.get("prefix", {}) else None,
                adapters=of.get("adapters", {}).get(i, (None, None)),
                additions=of.get("additions", {}).get(i),
            )
            if i in of.get("hidden", {}):
                rows = of["hidden"][i](x, example)
                rows = rows if slots.get("replaced") else rows + x[begin : begin + COUNT]
                x = torch.cat([x[:begin], rows, x[begin + COUNT :]])
        outputs.append(x[: len(ids)])
    return outputs


def check(model, tokens, injection, expected, leaves, place=NO_PLACE):
    """Equal states of all real tokens, and equal gradients, none of them zero; in either mode, pads told of or not."""
    draws = [torch.randn_like(states) for states in expected]
    theirs = torch.autograd.grad(sum((draw * states).sum() for draw, states in zip(draws, expected)), leaves)
    padded = bool(tokens.eq(PAD).any())
    for told, training in ((None, True), (padded, False), (True, True)):
        model.train(training)
        features, _ = model.encoder(tokens, features_only=True, injection=injection, place=place, padded=told)
        found = [features[example, : len(states)] for example, states in enumerate(expected)]
        for mine, states in zip(found, expected):
            torch.testing.assert_close(mine, states, atol=1e-10, rtol=0)
        ours = torch.autograd.grad(sum((draw * states).sum() for draw, states in zip(draws, found)), leaves)
        for mine, plain in zip(ours, theirs):
            assert plain.any()
            torch.testing.assert_close(mine, plain, atol=1e-8 * float(plain.abs().max()), rtol=0)


def make_room(tokens: Tensor, position: int = 0) -> tuple[Tensor, Place]:
    extra = prompted(tokens, position, COUNT)
    return extra.prompted_tokens, Place(extra.prompt_offset, COUNT, tokens)


@pytest.mark.parametrize("position", range(5))
def test_input(model, position):
    wide, place = make_room(pair_batch(), position)
    rows = leaf(3, COUNT, WIDTH)
    expected = plain_pass(model, wide, pair_batch(), place.offset, lambda example, text: rows[example])
    check(model, wide, Injection(input=rows), expected, [rows], place)


@pytest.mark.parametrize("position", [0, 3, 4])
def test_input_from_the_words_of_the_text(model, position):
    wide, place = make_room(pair_batch(), position)
    reader = Reader()
    expected = plain_pass(model, wide, pair_batch(), place.offset, lambda example, text: reader.alone(text))
    check(model, wide, Injection(input=reader), expected, list(reader.parameters()), place)


@pytest.mark.parametrize("count", [1, 7, 30])
@pytest.mark.parametrize("own", [True, False])
def test_words_without_a_prompt(model, tokens, count, own):
    rows = leaf(3, count, WIDTH) if own else leaf(count, WIDTH)

    def words(example):
        return dict(enumerate(rows[example] if own else rows))

    check(model, tokens, Injection(words=rows), plain_pass(model, tokens, words=words), [rows])


def text_places(wide: Tensor, place: Place, position: int) -> list[list[int]]:
    """Of each example: where its text stands in the lengthened sequence, counted out."""
    found = []
    for example, row in enumerate(wide):
        begin, beside = int(place.offset[example]), 1 if position == 4 else 0
        block = range(begin - beside, begin + COUNT + beside)
        found.append([i for i in range(int(row.ne(PAD).sum())) if i not in block])
    return found


@pytest.mark.parametrize("position", range(5))
@pytest.mark.parametrize("count", [4, 30])
def test_words_around_a_prompt(model, position, count):
    """Prompt rows and their separators get none, and the prompt that is made from words sees them with theirs."""
    text = pair_batch()
    wide, place = make_room(text, position)
    rows, reader, places = leaf(count, WIDTH), Reader(), text_places(wide, place, position)

    def embedded(example, own):
        return reader.alone(torch.stack([own[i] + rows[i] if i < count else own[i] for i in range(len(own))]))

    expected = plain_pass(
        model, wide, text, place.offset, embedded, words=lambda example: dict(zip(places[example], rows))
    )
    check(model, wide, Injection(words=rows, input=reader), expected, [rows, *reader.parameters()], place)


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    position=st.sampled_from([0, 1, 4]),
    count=st.integers(1, 12),
    wider=st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_words_reach_the_text_and_nothing_else(lengths, position, count, wider):
    """Row j reaches token j of the text, however far either kind of tokens is padded."""
    rows = [torch.tensor([0, *[5] * length, 2]) for length in lengths]
    text = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    wide, place = make_room(text, position)
    text, wide = (torch.nn.functional.pad(t, (0, more), value=PAD) for t, more in zip((text, wide), wider))
    words = torch.arange(1.0, count + 1)[:, None]
    x = torch.zeros(wide.size(1), len(wide), 1)
    out = add_to_prompted_words(x, words, Place(place.offset, COUNT, text), wide, PAD)[..., 0].t()
    expected = torch.zeros_like(out)
    for example, places in enumerate(text_places(wide, place, position)):
        for j, i in enumerate(places[:count]):
            expected[example, i] = j + 1
    assert torch.equal(out, expected) and not x.any()
    first = add_to_words(torch.zeros(text.size(1), len(text), 1), words)[..., 0].t()
    assert first.tolist() == [[j + 1.0 if j < count else 0.0 for j in range(text.size(1))]] * len(text)


@pytest.mark.parametrize("insertion", ["add", "replace"])
@pytest.mark.parametrize("layer", range(LAYERS))
def test_hidden(model, layer, insertion):
    """Rows of their own, and rows from the states after the layer."""
    wide, place = make_room(pair_batch())
    rows, deep, reader = leaf(3, COUNT, WIDTH), leaf(1, COUNT, WIDTH), Reader()
    for hidden, plain, leaves in (
        (lambda states: deep, lambda x, example: deep[0], [deep]),
        (reader, lambda x, example: reader.alone(x), list(reader.parameters())),
    ):
        injection = Injection(
            input=rows, hidden=lambda i, states, f=hidden: f(states) if i == layer else None, insertion=insertion
        )
        expected = plain_pass(
            model,
            wide,
            pair_batch(),
            place.offset,
            lambda example, text: rows[example],
            hidden={layer: plain},
            replaced=insertion == "replace",
        )
        check(model, wide, injection, expected, [rows, *leaves], place)


@pytest.mark.parametrize("layer", range(LAYERS))
def test_late(model, tokens, layer):
    deep, reader = leaf(3, COUNT, WIDTH), Reader()
    for late, plain, leaves in (
        (lambda states: deep, lambda x, example: deep[example], [deep]),
        (lambda states: deep[:1], lambda x, example: deep[0], [deep]),
        (reader, lambda x, example: reader.alone(x), list(reader.parameters())),
    ):
        injection = Injection(late=lambda i, states, f=late: f(states) if i == layer else None)
        check(model, tokens, injection, plain_pass(model, tokens, late={layer: plain}), leaves)


def test_late_at_every_layer_around_a_prompt_of_the_input(model):
    """Later rows are made from all states below, those that joined before among them."""
    wide, place = make_room(pair_batch(), 1)
    rows, deep, readers = leaf(3, COUNT, WIDTH), leaf(1, COUNT, WIDTH), [Reader(i + 1) for i in range(LAYERS)]
    injection = Injection(
        input=rows, late=lambda i, states: readers[i](states), hidden=lambda i, states: deep if i == 1 else None
    )
    expected = plain_pass(
        model,
        wide,
        pair_batch(),
        place.offset,
        lambda example, text: rows[example],
        late={i: lambda x, example, reader=reader: reader.alone(x) for i, reader in enumerate(readers)},
        hidden={1: lambda x, example: deep[0]},
    )
    leaves = [rows, deep, *(p for reader in readers for p in reader.parameters())]
    check(model, wide, injection, expected, leaves, place)


@pytest.mark.parametrize("before", [True, False], ids=["before projection", "after projection"])
@pytest.mark.parametrize("layer", range(LAYERS))
def test_key_value(model, tokens, layer, before):
    deep, reader = leaf(1, 2 * COUNT, WIDTH), Reader(2 * COUNT)
    for make, plain, leaves in (
        (lambda states: deep, lambda x, example: deep[0], [deep]),
        (reader, lambda x, example: reader.alone(x), list(reader.parameters())),
    ):

        def key_value(i, states, make=make):
            return Prefix(*make(states).chunk(2, 1), before) if i == layer else None

        def prefix(x, example, attention, plain=plain):
            keys, values = plain(x, example).chunk(2)
            return (attention.k_proj(keys), attention.v_proj(values)) if before else (keys, values)

        expected = plain_pass(model, tokens, prefix={layer: prefix})
        check(model, tokens, Injection(key_value=key_value), expected, leaves)


@pytest.mark.parametrize("layer", range(LAYERS))
@pytest.mark.parametrize("after", [(True, False), (False, True), (True, True)], ids=["attention", "ffn", "both"])
def test_sublayer(model, tokens, layer, after):
    """Each sees the sublayer's output, its input and the LayerNorm that closes the sublayer."""
    dense = nn.Linear(WIDTH, WIDTH)
    changes = (lambda f, x, norm: f + dense(norm(f + x)), lambda f, x, norm: 2 * f - dense(x))
    pair = tuple(change if wanted else None for change, wanted in zip(changes, after))
    keys = set(model.encoder.state_dict())
    injection = Injection(sublayer=lambda i: pair if i == layer else (None, None))
    expected = plain_pass(model, tokens, adapters={layer: pair})
    check(model, tokens, injection, expected, list(dense.parameters()))
    assert set(model.encoder.state_dict()) == keys


@pytest.mark.parametrize("layer", range(LAYERS))
@pytest.mark.parametrize("names", [*((name,) for name in LINEARS), tuple(LINEARS)], ids="+".join)
def test_projection(model, tokens, layer, names):
    added = {name: nn.Linear(*LINEARS[name], bias=False) for name in names}
    injection = Injection(projection=lambda i: Additions(**added) if i == layer else Additions())
    expected = plain_pass(model, tokens, additions={layer: added})
    check(model, tokens, injection, expected, [module.weight for module in added.values()])


def test_all_slots_at_once(model):
    """A prefix before projection passes through what is added to the projections."""
    wide, place = make_room(pair_batch(), 4)
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
    places = text_places(wide, place, 4)

    def plain_prefix(x, example, attention):
        keys, values = prefix[0].chunk(2)
        return attention.k_proj(keys) + added["k_proj"](keys), attention.v_proj(values) + added["v_proj"](values)

    expected = plain_pass(
        model,
        wide,
        pair_batch(),
        place.offset,
        lambda example, text: rows[example],
        words=lambda example: dict(zip(places[example], words)),
        hidden={0: lambda x, example: deep[0]},
        late={1: lambda x, example: reader.alone(x)},
        prefix=dict.fromkeys(range(LAYERS), plain_prefix),
        adapters=dict.fromkeys(range(LAYERS), change),
        additions=dict.fromkeys(range(LAYERS), added),
    )
    leaves = [rows, words, prefix, deep, *reader.parameters(), dense.weight, *(m.weight for m in added.values())]
    check(model, wide, injection, expected, leaves, place)


def test_single_sentences_have_room_too(model):
    wide, place = make_room(single_batch(), 4)
    rows = leaf(3, COUNT, WIDTH)
    expected = plain_pass(model, wide, single_batch(), place.offset, lambda example, text: rows[example])
    check(model, wide, Injection(input=rows), expected, [rows], place)


@pytest.mark.parametrize("slot", ["input", "hidden"])
def test_rows_without_room_are_an_error(model, slot):
    rows = leaf(3, COUNT, WIDTH)
    injection = Injection(input=rows) if slot == "input" else Injection(hidden=lambda i, states: rows)
    for tokens in (pair_batch(), make_room(pair_batch())[0]):
        with pytest.raises((RuntimeError, IndexError)):
            model.encoder(tokens, features_only=True, injection=injection)


def test_rows_reach_only_their_places():
    """T x B x d, whichever way it lies in memory; the second example has rows of its own."""
    at = torch.tensor([[1, 2], [3, 4]])
    for x in (torch.zeros(6, 2, 3), torch.zeros(2, 6, 3).transpose(0, 1)):
        for write in (add_rows, replace_rows):
            out = write(x, torch.ones(1, 2, 3), at).transpose(0, 1)
            assert out.sum(-1).tolist() == [[0, 3, 3, 0, 0, 0], [0, 0, 0, 3, 3, 0]]
            own = torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]]).expand(2, 2, 3)
            out = write(x, own, at).transpose(0, 1)
            assert out.sum(-1).tolist() == [[0, 3, 6, 0, 0, 0], [0, 0, 0, 9, 12, 0]]
        assert not x.any()


@pytest.mark.parametrize("way", ["weights", "autocast"])
def test_half_precision(way):
    """Rows in float32 meet states in bfloat16 and the other way round."""
    torch.set_default_dtype(torch.float32)
    model = tiny_model(method="prompt-tuning", prompt_length=COUNT, attention_dropout=0.1).train()
    wide, place = make_room(pair_batch(), 4)
    rows, words, prefix, reader = leaf(3, COUNT, WIDTH), leaf(5, WIDTH), leaf(1, 4, WIDTH), Reader()
    added = {name: nn.Linear(*shape, bias=False) for name, shape in LINEARS.items()}
    if way == "weights":
        for module in (model, reader, *added.values()):
            module.bfloat16()
    injection = Injection(
        words=words,
        input=rows,
        hidden=lambda i, states: rows,
        late=lambda i, states: reader(states) if i == 1 else rows,
        key_value=lambda i, states: Prefix(*prefix.chunk(2, 1), before_projection=i == 1),
        sublayer=lambda i: (lambda f, x, norm: f + norm(x), None),
        projection=lambda i: Additions(**added),
    )
    with torch.autocast("cpu", torch.bfloat16, enabled=way == "autocast"):
        features, _ = model.encoder(wide, features_only=True, injection=injection, place=place)
    features[:, 0].float().sum().backward()
    assert features.isfinite().all() and (features.dtype == torch.bfloat16 or way == "autocast")
    leaves = [rows, words, prefix, *reader.parameters(), *(module.weight for module in added.values())]
    assert all(each.grad is not None and each.grad.isfinite().all() and each.grad.any() for each in leaves)
