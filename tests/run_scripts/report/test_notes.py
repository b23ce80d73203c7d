"""What stands under a table of the options, settings and learning rates of its runs."""

import pytest

from run_scripts.report.choice import Scope
from run_scripts.report.notes import (
    data_note,
    options_note,
    rates_compared,
    rates_tried,
)

from . import made

OFF = {"given_options": ["--dropout", "0"]}


def long(row, **more):
    options = ["--prompt-length", "20", *more.get("given_options", ())]
    return made.run(row, "MR", **{**more, "prompt_length": 20, "given_options": options})


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([made.run("a", "MR", **OFF), made.run("b", "CR", **OFF)], "--dropout 0"),
        ([made.run("a", "MR", position=0), made.run("a", "MR", position=4, **OFF)], "a on MR, position 4: --dropout 0"),
        ([made.run("a", "MR"), long("a")], None),  # the lengths stand beside the positions
    ],
)
def test_options_of_all_runs_or_of_those_that_have_them(runs, said):
    assert options_note(runs) == ([f"options besides the paper's: {said}"] if said else [])


def on(row, task, read, data, **more):
    """A run whose record has these fingerprints of its data; None: it does not say."""
    found = {"read_sha256": read and read * 64, "data_sha256": data and data * 64}
    return made.run(row, task, **{name: value for name, value in found.items() if value}, **more)


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([on("a", "CR", "1", "1"), on("b", "CR", "2", "2")], ": 11111111 of a on CR; 22222222 of b on CR"),
        ([on("a", "CR", "1", "1"), on("b", "CR", "1", "2"), on("vectors", "CR", "2", "2")], None),
    ],
)
def test_rows_of_other_data_are_named(tmp_path, runs, said):
    """Rows of EFL have data of their own, so that it is no error."""
    notes = [f"not the same data for all runs of a task{said}"] if said else []
    assert data_note(runs) == notes
    table = made.report(tmp_path, runs, "--table methods --tasks CR")
    assert said is None or notes[0] in table.notes[-1]
    older = data_note([on("a", "CR", None, "1"), on("b", "CR", "2", "2")])
    assert older and older[0].startswith("perhaps ")  # older fingerprints cover word vectors too


# --- learning rates ------------------------------------------------------------------------------


def rates(row, task, devs):
    """Runs by learning rate and seed."""
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
    assert rates_tried(runs) == ["learning rates tried: 0.001, 0.01; 3e-05 (b)"]
