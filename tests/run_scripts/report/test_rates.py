"""What stands under a table of learning rates."""

from __future__ import annotations

import pytest

from run_scripts.report.methods import methods_table
from run_scripts.report.rates import rates_notes, rates_tried
from run_scripts.report.runs import Results
from run_scripts.report.scope import Choice
from run_scripts.report.scores import rows_of

from . import made

FEW = {"setting": "few-shot"}
LONG = {"prompt_length": 20, "given_options": ["--prompt-length", "20"]}


def rates(row, task, devs):
    """Runs by learning rate and seed."""
    return [made.run(row, task, seed, lr, dev) for lr, of in devs.items() for seed, dev in of.items()]


ON = "learning rates without all of these seeds were compared on "
BETTER = "better there, and left out for want of seeds: "
CHOSEN_BY_ONE = rates("a", "CR", {1e-3: {1: 70, 2: 60}, 1e-2: {1: 69}})  # as lr_seeds has it
STOPPED = rates("b", "CR", {1e-3: {1: 70, 2: 60, 3: 60}, 1e-2: {1: 60, 2: 80.5}})  # before the last of its runs
APART = rates("c", "MR", {1e-3: {1: 70}, 1e-2: {2: 60}})
LUCKY = rates("d", "CR", {1e-3: {1: 70, 2: 60, 3: 60}, 1e-2: {1: 65, 4: 95}})  # the best is a seed of its own


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (rates("a", "CR", {1e-3: {1: 70, 2: 60}, 1e-2: {1: 69, 2: 61}}), []),
        (CHOSEN_BY_ONE, [f"{ON}seeds 1"]),
        (
            STOPPED,
            [f"{ON}seeds 1, 2", "better there, and left out for want of seeds: b on CR, lr 0.01: 70.2 and not 65.0"],
        ),
        (LUCKY, [f"{ON}seeds 1"]),
        ([*CHOSEN_BY_ONE, *APART], [f"{ON}seeds 1; no seed (c on MR)"]),
    ],
)
def test_rates_that_were_compared_on_some_of_the_seeds(tmp_path, runs, said):
    """A sweep that was stopped shows a rate that has all seeds beside a better one that has not."""
    assert rates_notes(rows_of(runs, lambda run: (run["k"], run["row"]))) == said
    notes = methods_table(Results(tmp_path, tuple(runs)), Choice()).notes
    assert notes[2 : 2 + len(said)] == said and notes[2 + len(said)].startswith("setting full")


BOTH = {1e-3: {1: 70}, 1e-2: {1: 69}}


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (rates("a", "CR", BOTH), "0.001, 0.01"),
        (
            [*rates("a", "CR", BOTH), *rates("a", "MR", BOTH), *rates("b", "CR", {3e-5: {1: 70}})],
            "0.001, 0.01; 3e-05 (b)",
        ),
        (
            [*rates("a", "CR", BOTH), *rates("b", "CR", BOTH), *rates("b", "MR", {1e-2: {1: 70}})],
            "0.001, 0.01; 0.01 (b on MR)",
        ),
        (
            [made.run("a", "MR", k=k, lr=lr, **FEW) for k, lr in ((100, 1e-3), (100, 1e-2), (500, 1e-3))],
            "0.001, 0.01; 0.001 (a on MR with K = 500)",
        ),
        (
            [made.run("a", "MR"), made.run("b", "MR"), *(made.run("a", "MR", lr=lr, **LONG) for lr in (1e-3, 1e-2))],
            "0.001; 0.001, 0.01 (a on MR, prompt length 20)",
        ),
    ],
)
def test_rows_for_which_other_rates_were_tried_are_named(runs, said):
    """The best of one rate, beside the best of several, is no choice of dev."""
    assert rates_tried(runs) == [f"learning rates tried: {said}"]


def test_a_rate_that_is_as_good_on_the_shared_seeds_is_not_better():
    runs = rates("e", "CR", {1e-3: {1: 70, 2: 60}, 1e-2: {1: 70}})
    assert rates_notes(rows_of(runs, lambda run: (run["k"], run["row"]))) == [f"{ON}seeds 1"]
