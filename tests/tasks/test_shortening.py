"""Shortening keeps the special tokens, fits the room, and takes from the longer sentence first."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.data import data_utils
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.errors import InputError
from fairseq_idpg.tasks.positions import Shortener, kept_lengths, text_room

LENGTH = st.integers(0, 40)


@given(a=LENGTH, b=LENGTH, room=st.integers(2, 50), separators=st.sampled_from([1, 2]), random=st.booleans())
def test_pairs(a, b, room, separators, random):
    words_a, words_b = list(range(100, 100 + a)), list(range(200, 200 + b))
    tokens = torch.tensor([0, *words_a, *[2] * separators, *words_b, 2])
    lengths = np.array([a]), np.array([b])
    kept = kept_lengths(lengths, room)
    shorten = Shortener(lengths, kept, separators, random, seed=3)
    out = shorten(tokens, 0).tolist()
    ka, kb = int(kept[0][0]), int(kept[1][0])
    assert 0 <= ka <= a and 0 <= kb <= b and ka + kb == min(a + b, room)
    assert (ka == a or ka >= kb) and (kb == b or kb >= ka - 1)  # the longer one is cut
    assert len(out) == ka + kb + 2 + separators
    assert out[0] == 0 and out[-1] == 2 and out[1 + ka : 1 + ka + separators] == [2] * separators
    for part, words in ((out[1 : 1 + ka], words_a), (out[1 + ka + separators : -1], words_b)):
        start = words.index(part[0]) if part else 0
        assert part == words[start : start + len(part)]
        assert random or start == 0


def test_random_windows_are_those_of_fairseqs_generator_whatever_other_threads_draw(monkeypatch):
    tokens, lengths = torch.arange(102), [np.array([100])]
    shorten = Shortener(lengths, kept_lengths(lengths, 10), 2, random=True, seed=1, epoch=3)
    with data_utils.numpy_seed(1, 3, 0):
        first = np.random.randint(0, 91)
    for name in ("seed", "randint", "set_state"):
        monkeypatch.delattr(np.random, name)  # numpy's one generator of all threads
    assert shorten(tokens, 0).tolist() == [0, *range(1 + first, 11 + first), 101]


@pytest.mark.parametrize(("pairs", "least"), [(True, 2), (False, 1)])
def test_every_sentence_has_room_for_a_token(pairs, least):
    cfg, rows = SimpleNamespace(max_positions=20, separator_token=2), 20 - 2 - 2 * pairs - least
    assert text_room(cfg, pairs, 5, rows) == least
    with pytest.raises(InputError, match="--prompt-length 5 .*--max-positions 20"):
        text_room(cfg, pairs, 5, rows + 1)


def test_a_pair_is_cut_where_its_second_sentence_is():
    lengths = [np.array([2, 2, 9, 2]), np.array([9, 2, 2, 9])]
    assert Shortener(lengths, kept_lengths(lengths, 6), 2, False, seed=1).cut.tolist() == [True, False, True, True]
