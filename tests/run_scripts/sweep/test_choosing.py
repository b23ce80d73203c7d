"""lr_seeds: the first seeds choose the learning rate, the others have it alone."""

import json

import pytest

from preprocess.errors import InputError
from run_scripts.report.choice import Choice, take_runs
from run_scripts.report.records import read_results
from run_scripts.run.perform import described
from run_scripts.run.records import append_record, failure
from run_scripts.sweep.config import read_sweep
from run_scripts.sweep.plan import experiments, rates_of
from run_scripts.sweep.stages import run
from tests.run_scripts.tiny import IDPG, Ended

BEST = {("RTE", "head-only"): 1e-2, ("RTE", "m-idpg-phm"): 1e-3, ("MRPC", "head-only"): 1e-3}
KEYS = {
    **{"tasks": ["RTE", "MRPC"], "rows": ["head-only", IDPG], "lrs": [1e-2, 1e-3], "k": [8, 4], "seeds": [1, 2, 3]},
    **{"lr_seeds": [1], "dev_examples": 4},
}
DIVERGED, LOST = failure("the run has diverged"), failure("the job died")


class Cluster:
    """Runs end at once, with the best dev scores at the rates of BEST, or as ``fails`` says of a task, row and rate."""

    interval = 0.0

    def __init__(self, **fails):
        self.started, self.fails = [], fails

    def start(self, request):
        made = request.experiment
        self.started.append((made.seed, made.k, made.task, made.row, made.lr))
        place = f"{made.task} {made.row} {made.lr:g}"
        failed = self.fails.get(place) or self.fails.get(f"{place} seed {made.seed}")
        if failed:
            return Ended(failed)
        dev = 70.0 if BEST.get((made.task, made.row), 1e-2) == made.lr else 60.0
        facts = {"status": "done", "dev": dev, "test": 50.0, "seconds": 1.0, "trainable": 1}
        return Ended({**described(made, request.run), **facts})


@pytest.fixture
def sweep(world, tmp_path):
    return lambda **more: read_sweep(world.config(tmp_path, **{**KEYS, **more}))


def go(sweep, results, **fails):
    cluster = Cluster(**fails)
    failed = run(sweep, {}, experiments(sweep, {}), results, cluster)
    return failed, cluster.started


CELLS = [(k, task, row) for k in (8, 4) for task in ("RTE", "MRPC") for row in ("head-only", "m-idpg-phm")]


def test_the_first_seed_chooses_and_the_others_follow_seed_by_seed(sweep, tmp_path):
    """A prefix is a whole smaller table: all rows and tasks of the first K and seed, then of the next."""
    failed, started = go(sweep(seeds=[3, 1, 2]), tmp_path / "results")
    first = [(1, *cell, lr) for cell in CELLS for lr in (1e-2, 1e-3)]
    later = [(seed, *cell, BEST.get(cell[1:], 1e-2)) for seed in (3, 2) for cell in CELLS]
    assert failed == 0 and started == first + later


def test_beside_an_end_of_the_grid_one_more_rate_is_tried(sweep, tmp_path):
    """1e-2, named twice, is the best but for MRPC head-only; a row with rates of its own has none beyond."""
    own = {"method": "head-only", "name": "own", "lrs": [1e-3, 1e-4]}
    asked = sweep(k=[4], rows=["head-only", own], lrs_beyond=[1e-1, 3e-2, 1e-2, 3e-4], seeds=[1, 2])
    failed, started = go(asked, tmp_path / "results")
    grid = [run for run in started if run[3] == "own" or run[4] in (1e-2, 1e-3)]
    beyond = [run for run in started if run not in grid]
    assert failed == 0 and beyond == [(1, 4, "RTE", "head-only", 3e-2), (1, 4, "MRPC", "head-only", 3e-4)]
    assert started.index(beyond[0]) == 8 and {run[0] for run in started[10:]} == {2}
    assert go(asked, tmp_path / "results") == (0, [])


def test_rates_near_those_of_fewer_examples(sweep, tmp_path):
    """8 examples try the rate that 4 chose and its neighbours on the grid."""
    grid = {"lrs": [3e-2, 1e-2, 3e-3, 1e-3, 3e-4], "rows": ["head-only"], "seeds": [1, 2]}
    go(sweep(k=[4], **grid), tmp_path / "few")
    _, started = go(sweep(k=[8], lrs_near=str(tmp_path / "few"), **grid), tmp_path / "more")
    of = {task: [lr for seed, _, name, _, lr in started if (seed, name) == (1, task)] for task in ("RTE", "MRPC")}
    assert of == {"RTE": [3e-2, 1e-2, 3e-3], "MRPC": [3e-3, 1e-3, 3e-4]} and len(started) == 8
    with pytest.raises(InputError, match="m-idpg-phm on RTE"):
        go(sweep(k=[8], lrs_near=str(tmp_path / "few"), rows=[IDPG]), tmp_path / "other")


def test_rates_near_are_those_of_the_same_prompt(sweep, tmp_path):
    """At position 1 another rate is the best; two runs of one rate and seed, as of two backbones, are refused."""
    asked = {"tasks": ["RTE"], "rows": [IDPG], "positions": [0, 1], "lrs": [1e-2, 1e-3, 1e-4], "seeds": [1]}
    go(sweep(k=[4], **asked), tmp_path)
    path, more = tmp_path / "results.jsonl", sweep(k=[8], lrs_near=str(tmp_path), **asked)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        record["dev"] = 90.0 if (record["position"], record["lr"]) == (0, 1e-2) else record["dev"]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    tried = {(run.position, run.lr) for run in rates_of(more, experiments(more, {})).first}
    assert tried == {(0, 1e-2), (0, 1e-3), (1, 1e-2), (1, 1e-3), (1, 1e-4)}
    append_record(tmp_path, {**records[0], "run": "another"})
    with pytest.raises(InputError, match="another"):
        rates_of(more, experiments(more, {}))


def test_what_is_beside_the_papers_grid(sweep):
    """With K examples it holds 5e-5 itself: 1e-2 alone is beside it."""
    few = sweep(lrs=None, lrs_beyond=[1e-2, 5e-5], rows=["head-only"], tasks=["RTE"], k=[4])
    rates = rates_of(few, experiments(few, {}))
    found = [[run.lr for run in runs] for runs in (rates.first, rates.beyond)]
    assert found == [[5e-4, 1e-4, 5e-5, 1e-5], [1e-2]]


def test_it_goes_on_where_it_was_stopped(sweep, tmp_path):
    _, started = go(sweep(), tmp_path)
    lines = (tmp_path / "results.jsonl").read_text().splitlines(keepends=True)
    for kept in (5, 18, len(lines)):
        (tmp_path / "results.jsonl").write_text("".join(lines[:kept]))
        assert go(sweep(), tmp_path) == (0, started[kept:])


def test_rates_that_diverged_are_out_and_what_failed_leaves_no_choice(sweep, tmp_path, capsys):
    fails = {"RTE head-only 0.01": DIVERGED, "MRPC head-only 0.001": LOST}
    fails |= {f"MRPC m-idpg-phm {lr}": DIVERGED for lr in ("0.01", "0.001")}
    failed, started = go(sweep(k=[4]), tmp_path / "results", **fails)
    later = [run for run in started if run[0] > 1]
    rows = ("head-only", "m-idpg-phm")
    assert failed == 1 and later == [(seed, 4, "RTE", row, 1e-3) for seed in (2, 3) for row in rows]
    assert "2 rows of tasks have no learning rate for their other seeds" in capsys.readouterr().out
    failed, started = go(sweep(k=[4]), tmp_path / "results")
    assert failed == 0 and [run[0] for run in started] == [1, 2, 3] and {run[3] for run in started} == {"head-only"}


def test_where_another_seed_diverges_all_have_the_next_rate(sweep, tmp_path):
    """As the report chooses: else it would show what the first seed alone says of that rate."""
    failed, started = go(sweep(k=[4]), tmp_path / "results", **{"RTE head-only 0.01 seed 3": DIVERGED})
    assert failed == 0 and started[-2:] == [(seed, 4, "RTE", "head-only", 1e-3) for seed in (2, 3)]
    score = take_runs(read_results(tmp_path / "results"), Choice(), (4,)).rows("row")["head-only"]["RTE"]
    assert (score.lr, score.seeds) == (1e-3, (1, 2, 3))


def test_seeds_that_all_rates_have_choose_too(sweep, tmp_path, world):
    """The report compares rates on them, so the sweep would ask for runs of a rate that no table takes."""
    one = {"tasks": ["RTE"], "rows": ["head-only"], "k": [4]}
    results, asked = tmp_path / "results", sweep(**one)
    go(sweep(**one, lr_seeds=[1, 2]), results)
    lines = (results / "results.jsonl").read_text().splitlines(keepends=True)
    worse = [line.replace('"dev": 70.0', '"dev": 45.0') if '"seed": 2' in line else line for line in lines]
    (results / "results.jsonl").write_text("".join(worse))
    assert go(asked, results) == (0, [(3, 4, "RTE", "head-only", 1e-3)])
