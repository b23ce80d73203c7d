"""``lr_seeds``: learning rates that some seeds choose, so that the others need one run each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from ..report.records import Run, grouped, has_finished
from ..report.scores import choose
from ..run.experiment import Experiment
from ..run.records import read_records
from .config import Sweep
from .stage import has_diverged


class Rates(NamedTuple):
    """The runs of a sweep, seed by seed and K by K, so that those that have ended make a whole table.

    Attributes:
        first: all learning rates with the seeds that choose.
        later: the same with all other seeds, of which one each is made; none where all seeds choose.
    """

    first: list[Experiment]
    later: list[Experiment]


def rates_of(sweep: Sweep, runs: Iterable[Experiment]) -> Rates:
    """All as it is without ``lr_seeds``."""
    runs = list(runs)
    choosing = sweep.lr_seeds
    if choosing is None:
        return Rates(runs, [])
    runs.sort(key=lambda run: (run.seed not in choosing, sweep.seeds.index(run.seed), sweep.k.index(run.k)))
    return Rates(*([run for run in runs if (run.seed in choosing) == chooses] for chooses in (True, False)))


def by_cell(runs: Iterable[Experiment]) -> dict[Experiment, list[Experiment]]:
    """What runs that differ in learning rate and seed have in common -> the runs."""
    return grouped(runs, lambda run: replace(run, lr=1.0, seed=0))


def chosen(rates: Rates, results: Path) -> dict[Experiment, float]:
    """Cell -> learning rate, as reports choose it; of cells all of whose first runs have finished or diverged.

    Seeds besides the first take part where all rates have them, as where another sweep made their runs. A rate at which
    a later seed has diverged is out too.
    """
    records = {record["run"]: record for record in read_records(results)}
    found, of_later = {}, by_cell(rates.later)
    for cell, runs in by_cell(rates.first).items():
        first, later = ([records[run.run] for run in of if run.run in records] for of in (runs, of_later.get(cell, ())))
        out = {record["lr"] for record in (*first, *later) if has_diverged(record)}
        done = of_shared_seeds(run for run in (*first, *later) if has_finished(run) and run["lr"] not in out)
        whole = all(has_finished(record) or has_diverged(record) for record in first) and len(first) == len(runs)
        score = choose(done) if done and whole else None
        if score is not None:
            found[cell] = score.lr
    return found


def of_shared_seeds(done: Iterable[Run]) -> list[Run]:
    """Those with seeds that all learning rates have."""
    done = list(done)
    seeds = [{run["seed"] for run in of_rate} for of_rate in grouped(done, itemgetter("lr")).values()]
    return [run for run in done if all(run["seed"] in known for known in seeds)]


def with_chosen_rates(rates: Rates, results: Path) -> list[Experiment]:
    """The later runs whose learning rate has been chosen."""
    lrs = chosen(rates, results)
    cells = by_cell(rates.later).items()
    wanted = {run for cell, runs in cells for run in runs if run.lr == lrs.get(cell)}
    return [run for run in rates.later if run in wanted]


def undecided(rates: Rates, results: Path) -> set[Experiment]:
    """Cells whose first runs have not all ended, or have left no learning rate."""
    return set(by_cell(rates.later)) - set(chosen(rates, results))
