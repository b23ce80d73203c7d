"""Random numbers that are not drawn leave the generator where drawing leaves it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fairseq_idpg.backbone import skipped_draws
from fairseq_idpg.backbone.skipped_draws import WORDS, SkippedDraws, advance, draws_as_known, skips
from tests.folders import ROOT


def state_after(count: int, before: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    torch.empty(before).uniform_(generator=generator)
    torch.empty(count).uniform_(generator=generator)
    return generator.get_state()


@settings(max_examples=25)
@given(count=st.integers(3 * WORDS, 200 * WORDS), before=st.integers(0, 2 * WORDS))
def test_jumping_is_drawing(count, before):
    generator = torch.Generator().manual_seed(7)
    torch.empty(before).uniform_(generator=generator)
    few, skipped_draws.FEW = skipped_draws.FEW, WORDS
    try:
        advance(generator, count)
    finally:
        skipped_draws.FEW = few
    assert torch.equal(generator.get_state(), state_after(count, before))


@pytest.mark.parametrize(
    "count", [2 * WORDS + 1, 40 * WORDS, 40 * WORDS + 1, 41 * WORDS - 1, skipped_draws.FEW + 1, 3 * 10**7]
)
def test_jumps_of_all_kinds(monkeypatch, count):
    monkeypatch.setattr(skipped_draws, "FEW", WORDS)
    generator = torch.Generator().manual_seed(7)
    advance(generator, count)
    assert torch.equal(generator.get_state(), state_after(count, 0))


def fill_some(module: nn.Module) -> None:
    """Draws of every kind, of many sizes."""
    for size in (1, 15, 16, 17, 31, 32, 100):
        nn.init.normal_(module.weight[:size, 0].clone())
        nn.init.uniform_(torch.empty(size))
        torch.randn(size)
        torch.randperm(size)
        torch.empty(size, dtype=torch.float64).normal_()
        torch.empty(size, 3).t().normal_()
        nn.init.kaiming_uniform_(module.weight)
        nn.init.xavier_uniform_(module.weight)
        torch.empty(size).bernoulli_()
        torch.empty(size).normal_(generator=torch.Generator())


@pytest.mark.parametrize("few", [WORDS, skipped_draws.FEW])
def test_the_generator_stands_where_it_would(monkeypatch, few):
    monkeypatch.setattr(skipped_draws, "FEW", few)
    module = nn.Linear(40, 120)
    torch.manual_seed(3)
    fill_some(module)
    expected = torch.get_rng_state()
    torch.manual_seed(3)
    with SkippedDraws():
        fill_some(module)
    assert torch.equal(torch.get_rng_state(), expected)


def test_tensors_are_left_as_they_are():
    weight = torch.ones(64, 64)
    with SkippedDraws():
        assert weight.normal_() is weight
        nn.init.uniform_(weight)
    assert weight.eq(1).all()


def test_this_torch_draws_as_known():
    """Else everything is drawn: slower, and no more."""
    assert draws_as_known()


def test_another_torch_draws_everything(monkeypatch):
    monkeypatch.setattr(skipped_draws, "draws_as_known", lambda: False)
    weight = torch.ones(64, 64)
    torch.manual_seed(3)
    with SkippedDraws():
        weight.normal_()
    torch.manual_seed(3)
    assert torch.equal(weight, torch.empty(64, 64).normal_())
    assert not skips(torch.ops.aten.normal_.default, weight, {})


def test_no_compiler_is_imported():
    """torch's own takes longer than all the rest."""
    build = "import sys, torch; from fairseq_idpg.backbone.skipped_draws import SkippedDraws"
    build += "\nwith SkippedDraws(): torch.nn.Linear(9, 9)"
    command = [sys.executable, "-c", f"{build}\nprint('torch._dynamo' in sys.modules)"]
    assert subprocess.check_output(command, cwd=ROOT, text=True).splitlines()[-1] == "False"


def test_draws_between_skipped_fillings_are_the_same():
    """Of what is drawn between two fillings that are skipped, and after them."""

    def draws():
        torch.empty(64, 64).normal_()
        first = torch.randn(5)
        torch.empty(64).uniform_()
        return first, torch.randperm(9), torch.empty(3, dtype=torch.float64).normal_()

    torch.manual_seed(3)
    expected = draws()
    torch.manual_seed(3)
    with SkippedDraws():
        found = draws()
    assert all(map(torch.equal, found, expected))
