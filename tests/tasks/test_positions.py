"""Positions against sequences built token by token, for any lengths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.errors import InputError
from fairseq_idpg.tasks.positions import END, check_position, insertion_index, prompt_block

BOS, EOS, ROW = 0, 2, 3
LENGTH = st.integers(0, 30)


def inserted(position, a, b, t, separators=2):
    """What the library makes of ``<s> A </s> ... B </s>``, with the first prompt row's index."""
    tokens = [BOS] + ["A"] * a + [EOS] + ([EOS] * (separators - 1) + ["B"] * b + [EOS] if b is not None else [])
    index = insertion_index(position, [np.array([n]) for n in (a, b) if n is not None], separators)
    block = prompt_block(position, t, ROW, EOS).tolist()
    at = int(index[0])
    return tokens[:at] + block + tokens[at:], at + (position == END)


def expected(position, a, b, t, separators):
    a, p = ["A"] * a, [ROW] * t
    mid, b = ([], []) if b is None else ([EOS] * separators, ["B"] * b)
    return {
        0: [BOS, *p, *a, *mid, *b, EOS],
        1: [BOS, *a, *p, *mid, *b, EOS],
        2: [BOS, *a, *mid, *p, *b, EOS],
        3: [BOS, *a, *mid, *b, *p, EOS],
        4: [BOS, *a, *mid, *b, EOS, EOS, *p, EOS],
    }[position]


PAIRS, SINGLES = st.tuples(st.integers(0, 4), LENGTH), st.tuples(st.sampled_from([0, 1, 4]), st.none())


@given(placed=PAIRS | SINGLES, a=LENGTH, t=st.integers(1, 9), separators=st.sampled_from([1, 2]))
def test_pairs_and_singles(placed, a, t, separators):
    position, b = placed
    tokens, first = inserted(position, a, b, t, separators)
    assert tokens == expected(position, a, b, t, separators) and tokens[first : first + t] == [ROW] * t


@pytest.mark.parametrize(("pairs", "position"), [(False, 2), (True, -1), (True, 5)])
def test_positions_that_there_are_not(pairs, position):
    with pytest.raises(InputError, match=f"--prompt-position {position}"):
        check_position(position, pairs)
