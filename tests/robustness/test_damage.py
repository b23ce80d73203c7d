"""Damage is damage, the same for the same seed, and what is undamaged is valid."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .campaign import Case, draw_cases
from .damage import BYTES, bit_flip, byte_flip, duplicated, swapped, truncation, zeroed
from .targets import TARGETS

CHANGES = (bit_flip, byte_flip, truncation, zeroed, swapped, duplicated)


@given(st.binary(min_size=1, max_size=3000), st.integers(0, 1 << 30), st.sampled_from(CHANGES))
def test_bytes(data, seed, change):
    damaged, where = change(data, Random(seed))
    assert (damaged, where) == change(data, Random(seed))
    if change in (bit_flip, byte_flip):
        assert sum(a != b for a, b in zip(data, damaged)) == 1
    if change is truncation:
        assert data.startswith(damaged) and len(damaged) < len(data)
    if change is swapped:
        assert sorted(damaged) == sorted(data)
    if change is duplicated:
        assert len(damaged) > len(data)
    if change is not truncation and change is not duplicated:
        assert len(damaged) == len(data)


@pytest.mark.parametrize("kind", BYTES)
def test_files(kind, tmp_path):
    (tmp_path / "folder").mkdir()
    path, other = tmp_path / "folder" / "one", tmp_path / "other"
    path.write_bytes(bytes(range(256)))
    other.write_bytes(b"other")
    BYTES[kind](path, Random(1))
    assert not path.is_file() or path.read_bytes() != bytes(range(256))
    assert other.read_bytes() == b"other"


def test_cases_are_drawn_from_all_kinds_and_have_names():
    cases = draw_cases(3000, 1, list(TARGETS))
    assert len(set(cases)) == 3000 and cases == draw_cases(3000, 1, list(TARGETS))
    kinds = {(name, kind) for name, target in TARGETS.items() for kind in target.kinds}
    assert {(case.target, case.kind) for case in cases} == kinds
    assert all(Case.named(case.name, 1) == case for case in cases[:100])
    assert cases[:50] != draw_cases(50, 2, list(TARGETS))
