"""What stands under a table of the learning rates of its runs."""

import pytest

from run_scripts.report.choice import Scope
from run_scripts.report.notes import protocol, rates_compared

from . import made


def rates(row, task, devs):
    return [made.run(row, task, seed, lr, dev) for lr, of in devs.items() for seed, dev in of.items()]


ON = "learning rates without all of these seeds were compared on "
CHOSEN_BY_ONE = rates("a", "CR", {1e-3: {1: 70, 2: 60}, 1e-2: {1: 69}})  # as lr_seeds has it
STOPPED = rates("b", "CR", {1e-3: {1: 70, 2: 60, 3: 60}, 1e-2: {1: 60, 2: 80.5}})  # before the last of its runs
APART = rates("c", "MR", {1e-3: {1: 70}, 1e-2: {2: 60}})


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (CHOSEN_BY_ONE, [f"{ON}seeds 1"]),
        (STOPPED, [f"{ON}seeds 1, 2"]),
        ([*CHOSEN_BY_ONE, *APART], [f"{ON}seeds 1; no seed (c on MR)"]),
    ],
)
def test_rates_that_were_compared_on_some_of_the_seeds(tmp_path, runs, said):
    assert rates_compared(Scope(runs).rows("k", "row")) == said
    table = made.report(tmp_path, runs, "--table methods")
    assert all(note in table.more or note in table.notes[-1] for note in said)


def test_rows_for_which_other_rates_were_tried_are_named():
    """The best of one rate, beside the best of several, is no choice of dev."""
    both = {1e-3: {1: 70}, 1e-2: {1: 69}}
    runs = [*rates("a", "CR", both), *rates("a", "MR", both), *rates("b", "CR", {3e-5: {1: 70}})]
    assert protocol(Scope(runs), ())[0] == "learning rates tried: 0.001, 0.01; 3e-05 (b)"
