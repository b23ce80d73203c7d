"""Which runs a table takes, and what it refuses to mix."""

import shlex

import pytest

from preprocess.errors import InputError
from run_scripts.report.__main__ import choice_of, parser
from run_scripts.report.choice import still_failed, take_runs
from run_scripts.report.records import Results

from . import made

CR, OTHER_BACKBONE = made.run("a", "CR"), made.run("b", "CR", backbone=made.OTHER)
SINGLE, PAIR, LAST, FIRST = (
    *(made.run("a", "CR"), made.run("a", "RTE")),
    *(made.run("a", "CR", position=4), made.run("a", "RTE", position=0)),
)
SUPPLEMENTED = made.run("a", "CR", supplementary_position=0)
LENGTHS = [made.run("m-idpg-phm", "CR", prompt_length=length) for length in (1, 5, 10)]


def scope_of(runs, command="", ks=(None,), **more):
    choice = choice_of(parser().parse_args([".", *shlex.split(command)]))
    return take_runs(Results(".", tuple(runs)), choice, ks, **more)


@pytest.mark.parametrize(
    ("runs", "command", "taken"),
    [
        ([CR, made.run("b", "CR", selection="paper")], "--selection paper", [1]),
        *(([CR, OTHER_BACKBONE], f"--backbone {name}", [0]) for name in ("AB12", "roberta.large/model.pt")),
        ([CR, made.run("b", "CR", backbone={**made.BACKBONE, "path": "/elsewhere/model.pt"})], "", [0, 1]),
        ([CR, made.run("b", "CR", supplementary_position=0, backbone=made.OTHER)], "", [0, 1]),
        ([CR, made.run("a", "CR", **made.FEW)], "", [0]),
        ([SINGLE, PAIR, LAST, FIRST], "--position 0 1", [0, 1]),
        ([SINGLE, PAIR, LAST, FIRST, made.run("adapter", "RTE", prompt_length=None)], "--position 0", [0, 3, 4]),
        ([CR, SUPPLEMENTED], "--supplementary-position none", [0]),
        (LENGTHS, "", [1]),  # the paper's
        ([*LENGTHS, made.run("prompt-tuning-134", "CR", prompt_length=134)], "--prompt-length 10", [2, 3]),
        ([CR, made.run("a", "MNLI")], "", [0]),  # none of the paper's ten
    ],
)
def test_runs_that_are_taken(runs, command, taken):
    found = scope_of(runs, command).done
    assert sorted(run["run"] for run in found) == sorted(runs[number]["run"] for number in taken)


@pytest.mark.parametrize(
    ("runs", "command", "named"),
    [
        ([CR, made.run("b", "CR", selection="paper")], "", "--selection"),
        ([CR, OTHER_BACKBONE], "", r"mnli/model.pt \(cd34cd34\), roberta.large/model.pt \(ab12ab12\).*--backbone"),
        ([SINGLE, PAIR, LAST, FIRST], "", "a on single sentences .*position: 0, 4.*--position"),
        ([CR, SUPPLEMENTED], "", "--supplementary-position"),
        ([CR, made.run("a", "CR", 2, protocol=2)], "", "protocol 1 and 2"),
        ([CR, made.run("a", "CR")], "", "a on CR, and differ in nothing"),
    ],
)
def test_what_is_refused_names_the_option_or_the_runs(runs, command, named):
    with pytest.raises(InputError, match=named):
        scope_of(runs, command)


@pytest.mark.parametrize(
    ("one", "other", "named"),
    [
        ({}, {"batch_size": 8}, "batch size None and 8"),
        ({"method": "m-idpg-phm"}, {"method": "m-idpg-dnn"}, "method m-idpg-phm and m-idpg-dnn"),
        ({"read_sha256": "1" * 64}, {"read_sha256": "2" * 64}, "data 1{16} and 2{16}"),
        ({"given_options": ["--lora-rank", "4"]}, {"given_options": ["--lora-rank=8"]}, "--lora-rank 4, --lora-rank 8"),
    ],
)
def test_seeds_and_rates_of_a_cell_are_trained_alike(one, other, named):
    """A sweep that was stopped, changed, and gone on with: no run stands twice, and no mean says that it is of two."""
    runs = [made.run("a", "CR", **one), made.run("a", "CR", 2, **other)]
    with pytest.raises(InputError, match=f"{runs[0]['run']} and {runs[1]['run']}.*{named}"):
        scope_of(runs)
    assert len(scope_of([runs[0], {**runs[1], "task": "MR"}]).done) == 2


def test_what_changes_no_result_may_differ():
    options = (["--cpu", "--fp16"], ["--fp16", "--update-freq", "2", "--num-workers=4"], None)
    moved = ({"init_prompts_from": "/old/a.pt"}, {"init_prompts_from": "/new/a.pt"})
    assert len(scope_of([made.run("a", "CR", n, given_options=given) for n, given in enumerate(options)]).done) == 3
    assert len(scope_of([made.run("a", "CR", n, **more) for n, more in enumerate(moved)]).done) == 2


PLAIN, CLIPPED = ({"given_options": options} for options in ([], ["--clip-norm", "1"]))


@pytest.mark.parametrize(
    ("gone", "done", "counts"),
    [
        ({"seed": 1}, {"seed": 1}, False),  # it has finished since, in smaller parts
        ({"seed": 1, "lr": 1e-4}, {"seed": 1}, True),
        ({"seed": 1, **PLAIN}, {"seed": 2, **CLIPPED}, False),
        ({"seed": 1, "task": "MR"}, {"seed": 2, **CLIPPED}, True),  # nothing of its cell has finished
    ],
)
def test_failed_runs_that_are_counted(gone, done, counts):
    failed = made.failed("a", **{"task": "CR", "reason": "out of memory", "prompt_length": None, **gone})
    assert still_failed([failed], [made.run("a", "CR", **done)]) == [failed] * counts
