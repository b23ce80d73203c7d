"""A learning rate that is lowered on a plateau, of a training that is stopped and started again after every epoch."""

from __future__ import annotations

import pytest
import torch

from tests.folders import same_tensors, train

SMALL = 1e-5  # with it no accuracy is better than that of the first epoch


def last(folder):
    return torch.load(folder / "checkpoint_last.pt", weights_only=True)


@pytest.fixture
def usual(backbone):
    return ["--backbone", backbone, "--lr-scheduler", "reduce_lr_on_plateau", "--lr-shrink", 0.5]


def test_the_rate_is_that_of_a_run_that_was_never_stopped(pairs, usual, tmp_path):
    usual = [*usual, "--lr", SMALL, "--lr-patience", 1, "--save-interval-updates", 2]
    whole = train(pairs, tmp_path / "whole", *usual, "--max-epoch", 4)
    assert whole.log("train_lr") == [SMALL, SMALL, SMALL, SMALL / 2]
    parts = [train(pairs, tmp_path / "parts", *usual, "--max-epoch", epoch) for epoch in (1, 2, 3, 4)]
    assert [rate for part in parts for rate in part.log("train_lr")] == whole.log("train_lr")
    states = [last(tmp_path / name) for name in ("whole", "parts")]
    schedules = [state["optimizer_history"][-1]["lr_scheduler_state"] for state in states]
    assert [schedules[0][key] == schedules[1][key] for key in ("best", "num_bad_epochs")] == [True, True]
    assert same_tensors(states[0]["model"], states[1]["model"])


def test_another_rate_is_taken_by_a_new_schedule_alone(pairs, usual, tmp_path):
    train(pairs, tmp_path, *usual, "--lr", SMALL, "--max-epoch", 3)
    refused = train(pairs, tmp_path, *usual, "--lr", 1e-3, "--max-epoch", 4, succeed=False)
    assert f"was trained with --lr {SMALL}, now 0.001: give the same" in refused.last_line
    anew = train(pairs, tmp_path, *usual, "--lr", 1e-3, "--reset-lr-scheduler", "--max-epoch", 4)
    assert anew.log("train_lr") == [1e-3]
