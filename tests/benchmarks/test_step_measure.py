"""benchmarks/step_measure.py without its processes: whose turn it is, and what becomes of the seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import step_measure
from step_cases import Case
from step_settings import SIZES

SECONDS = {"slow": [4.0, 2.0, 6.0, 2.0], "quick": [2.0, 1.0, 2.0, 1.0]}  # two rounds of two steps


def measured(monkeypatch, device: str) -> tuple[list[tuple[str, int, bool]], dict[str, Any]]:
    """(turns: case, steps, whether to warm up; figures) of two rounds of two steps."""
    turns: list[tuple[str, int, bool]] = []

    class Recorder(step_measure.Worker):
        def __init__(self, case: Case, *_: Any):
            self.case, self.figures, self.seconds = case, {"tokens": 8.0, "examples": "e", "batches": "b"}, []
            self.given = iter(SECONDS[case.name])

        def build(self) -> None:
            pass

        def ask(self, request: dict[str, Any]) -> None:
            self.steps = request["run"]

        def answer(self) -> dict[str, Any]:
            warm_up = len(turns) < 2 * 2 // self.steps
            turns.append((self.case.name, self.steps, warm_up))
            seconds = [9.0 if warm_up else next(self.given) for _ in range(self.steps)]
            return {"peak_mib": 1.0, "skipped": 0, "seconds": seconds}

        def stop(self) -> None:
            pass

    monkeypatch.setattr(step_measure, "Worker", Recorder)
    cases = [Case(name, "floor", "text") for name in SECONDS]
    figures, failed = step_measure.measure(cases, replace(SIZES["tiny"], steps=2, device=device), rounds=2)
    assert not failed
    return turns, figures


def test_cases_take_turns_after_every_step_on_a_cpu(monkeypatch):
    turns, figures = measured(monkeypatch, "cpu")
    assert [name for name, *_ in turns] == ["quick", "slow", "slow", "quick"] + ["slow", "quick", "quick", "slow"] + [
        *("quick", "slow", "slow", "quick")
    ]
    assert {steps for _, steps, _ in turns} == {1}
    assert figures["slow"]["rounds_s"] == [3.0, 4.0]
    assert figures["slow"]["median_s"] == pytest.approx((5.0 + 2.0) / 2)  # of each step's median over the rounds
    assert figures["quick"]["tokens_per_s"] == pytest.approx(8.0 / 1.5)


def test_and_after_every_round_on_a_gpu(monkeypatch):
    turns, figures = measured(monkeypatch, "cuda")
    assert [(name, steps) for name, steps, _ in turns] == [
        (name, 2) for name in ("quick", "slow", "slow", "quick", "quick", "slow")
    ]
    assert figures["slow"]["rounds_s"] == [3.0, 4.0]
