"""The slots at the embedding, words and input, against a pass that is written out plainly."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_idpg.backbone.injection import Injection, Room, add_to_prompted_words, add_to_words
from tests.backbone.plain_pass import COUNT, WIDTH, Reader, check, leaf, make_room, plain_pass, text_places
from tests.helpers import PAD


@pytest.mark.parametrize("position", range(5))
def test_input(model, text, position):
    wide, room = make_room(text, position)
    rows = leaf(3, COUNT, WIDTH)
    expected = plain_pass(model, wide, text, room.offset, lambda example, words: rows[example])
    check(model, wide, Injection(input=rows), expected, [rows], room)


@pytest.mark.parametrize("position", [0, 3, 4])
def test_input_from_the_words_of_the_text(model, text, position):
    wide, room = make_room(text, position)
    reader = Reader()
    expected = plain_pass(model, wide, text, room.offset, lambda example, words: reader.alone(words))
    check(model, wide, Injection(input=reader), expected, list(reader.parameters()), room)


@pytest.mark.parametrize("count", [1, 7, 30])
@pytest.mark.parametrize("own", [True, False])
def test_words_without_a_prompt(model, tokens, count, own):
    rows = leaf(3, count, WIDTH) if own else leaf(count, WIDTH)

    def words(example):
        return dict(enumerate(rows[example] if own else rows))

    check(model, tokens, Injection(words=rows), plain_pass(model, tokens, words=words), [rows])


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
    out = add_to_prompted_words(x, words, Room(room.offset, COUNT, text), wide, PAD)[..., 0].t()
    expected = torch.zeros_like(out)
    for example, places in enumerate(text_places(wide, room, position)):
        for j, i in enumerate(places[:count]):
            expected[example, i] = j + 1
    assert torch.equal(out, expected) and not x.any()
    first = add_to_words(torch.zeros(text.size(1), len(text), 1), words)[..., 0].t()
    assert first.tolist() == [[j + 1.0 if j < count else 0.0 for j in range(text.size(1))]] * len(text)
