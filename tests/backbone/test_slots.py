"""Each slot of the embedding and the layers against a pass that is written out plainly, in values and gradients."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fairseq_idpg.backbone.encoder import added_to_scores, key_bias
from fairseq_idpg.backbone.injection import (
    NO_ROOM,
    Additions,
    Injection,
    Prefix,
    Room,
    States,
    add_to_prompted_words,
    add_to_words,
    append_rows,
)
from tests.backbone.plain_pass import (
    COUNT,
    LAYERS,
    WIDTH,
    Reader,
    check,
    leaf,
    make_room,
    plain_pass,
    text_places,
)
from tests.contract import exact
from tests.helpers import PAD, TINY, logits, pair_batch, tiny_model
from tests.plain import plain_embedding

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


@pytest.mark.parametrize("prompted", [False, True], ids=["text", "prompt"])
def test_late_from_what_the_pass_began_with(model, text, prompted):
    """The text's words with what is added to them, prompt left out, and what enters the first layer, prompt and all."""
    wide, room = make_room(text, 1) if prompted else (text, NO_ROOM)
    rows, added, words, entering = leaf(3, COUNT, WIDTH), leaf(4, WIDTH), Reader(), Reader()
    injection = Injection(
        input=rows if prompted else None,
        words=added,
        late=lambda i, states: words(states.origin.words()) + entering(states.origin.embedded()) if i == 2 else None,
    )
    stack = model.encoder.sentence_encoder
    places = text_places(wide, room, 1) if prompted else [range(int(row.ne(PAD).sum())) for row in text]
    sums = [dict(zip(found, added)) for found in places]

    def late(x, example):
        ids = text[example][text[example] != PAD]
        own = torch.stack([stack.embed_tokens.weight[t] + (added[i] if i < 4 else 0) for i, t in enumerate(ids)])
        full, begin = wide[example][wide[example] != PAD], int(room.offset[example]) if prompted else 0
        first = plain_embedding(stack, full, rows[example] if prompted else None, begin, sums[example])
        return words.alone(own) + entering.alone(first)

    prompt = {"embedded": lambda example, own: rows[example], "at": room.offset} if prompted else {}
    expected = plain_pass(model, wide, text, words=lambda example: sums[example], late={2: late}, **prompt)
    leaves = [added, *words.parameters(), *entering.parameters(), *([rows] if prompted else [])]
    check(model, wide, injection, expected, leaves, room)


def test_late_at_every_layer_around_a_prompt_of_the_input(model, text):
    """Later rows are made from all states below, those that joined before among them."""
    wide, room = make_room(text, 1)
    rows, deep, readers = leaf(3, COUNT, WIDTH), leaf(1, COUNT, WIDTH), [Reader(i + 1) for i in range(LAYERS)]
    injection = Injection(
        input=rows, late=lambda i, states: readers[i](states), hidden=lambda i, states: deep if i == 1 else None
    )
    expected = plain_pass(
        model,
        wide,
        text,
        room.offset,
        lambda example, words: rows[example],
        late={i: lambda x, example, reader=reader: reader.alone(x) for i, reader in enumerate(readers)},
        hidden={1: lambda x, example: deep[0]},
    )
    leaves = [rows, deep, *(p for reader in readers for p in reader.parameters())]
    check(model, wide, injection, expected, leaves, room)


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


@pytest.mark.parametrize("way", ["weights", "autocast"])
def test_half_precision(way):
    """Rows in float32 meet states in bfloat16 and the other way round."""
    torch.set_default_dtype(torch.float32)
    model = tiny_model(method="prompt-tuning", prompt_length=COUNT, attention_dropout=0.1).train()
    wide, room = make_room(pair_batch(), 4)
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
        features, _ = model.encoder(wide, features_only=True, injection=injection, room=room)
    features[:, 0].float().sum().backward()
    assert features.isfinite().all() and (features.dtype == torch.bfloat16 or way == "autocast")
    leaves = [rows, words, prefix, *reader.parameters(), *(module.weight for module in added.values())]
    assert all(each.grad is not None and each.grad.isfinite().all() and each.grad.any() for each in leaves)


PADS = torch.tensor([[False, True], [False, False]])


def test_rows_of_a_prefix_that_take_no_part_beside_a_text_without_pads():
    rows = torch.zeros(2, 2, 8)
    bias = added_to_scores(None, Prefix(rows, rows, padding=PADS), 3, torch.float32)
    assert bias.tolist() == [[[[0, -math.inf, 0, 0, 0]]], [[[0] * 5]]]


def test_a_pass_makes_its_mask_once():
    """For all layers, and for those with a prefix; another pass makes its own."""
    model = tiny_model(method="p-tuning-v2-kv", encoder_layers=5).eval()
    key_bias.cache_clear()
    for _ in range(2):
        logits(model, pair_batch())
    found = key_bias.cache_info()
    assert (found.misses, found.hits) == (2, 8)


def test_pads_among_late_rows_behind_a_text_without_pads():
    joined = append_rows(States(torch.zeros(3, 2, 8)), States(torch.ones(2, 2, 8), PADS))
    assert joined.padding.tolist() == [[False] * 4 + [True], [False] * 5] and len(joined.x) == 5


@pytest.mark.parametrize("position", range(5))
@pytest.mark.parametrize("count", [4, 30])
def test_words_around_a_prompt(model, text, position, count):
    """Prompt rows and their separators get none, and the prompt that is made from words sees them with theirs."""
    wide, room = make_room(text, position)
    rows, reader, places = leaf(count, WIDTH), Reader(), text_places(wide, room, position)

    def embedded(example, own):
        return reader.alone(torch.stack([own[i] + rows[i] if i < count else own[i] for i in range(len(own))]))

    expected = plain_pass(
        model, wide, text, room.offset, embedded, words=lambda example: dict(zip(places[example], rows))
    )
    check(model, wide, Injection(words=rows, input=reader), expected, [rows, *reader.parameters()], room)


@settings(max_examples=60)
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
    wide, room = make_room(text, position)
    text, wide = (torch.nn.functional.pad(t, (0, more), value=PAD) for t, more in zip((text, wide), wider))
    words = torch.arange(1.0, count + 1)[:, None]
    x = torch.zeros(wide.size(1), len(wide), 1)
    out = add_to_prompted_words(x, words, Room(room.offset, COUNT, text), PAD)[..., 0].t()
    expected = torch.zeros_like(out)
    for example, places in enumerate(text_places(wide, room, position)):
        for j, i in enumerate(places[:count]):
            expected[example, i] = j + 1
    assert torch.equal(out, expected) and not x.any()
    first = add_to_words(torch.zeros(text.size(1), len(text), 1), words)[..., 0].t()
    assert first.tolist() == [[j + 1.0 if j < count else 0.0 for j in range(text.size(1))]] * len(text)
