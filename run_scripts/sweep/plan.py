"""The runs of a sweep; with ``lr_seeds`` some of them choose the learning rates of the others.

With ``lrs_beyond``, a rate beside the grid is tried where the best is an end of it. With ``lrs_near``, the runs that
choose have the rate that another sweep chose with fewer examples, and its two neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, product
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_idpg.methods.registry import find_preset
from preprocess.errors import InputError

from ..report.choice import LENGTH, check_alike, choose
from ..report.records import Run, asked_options, grouped, has_finished, read_results
from ..run.command import learning_rates, with_few_shot_input
from ..run.experiment import STARTS, Experiment, with_others
from ..run.options import checked, flags
from ..run.records import read_records
from .config import Row, Supplementary, Sweep, folder_of
from .jobs import has_diverged

MOST_RUNS = 100_000
BETWEEN_SENTENCES = (2, 3)  # positions that single sentences do not have


class Variant(NamedTuple):
    """The purpose of a backbone from supplementary training: a row with its prompt length, at a position."""

    row: str
    prompt_length: int | None
    position: int | None


def experiments(sweep: Sweep, trained: Mapping[Variant, str]) -> list[Experiment]:
    """Return the runs on the tasks, from the checkpoints ``trained`` by ``first_stage`` or the sweep's backbone."""
    found = list(islice(_experiments(sweep, trained), MOST_RUNS + 1))
    if len(found) > MOST_RUNS:
        raise InputError(f"the lists stand for more than {MOST_RUNS:,} runs: shorten rows, tasks, lrs or seeds")
    return list(dict.fromkeys(found))


def _experiments(sweep: Sweep, trained: Mapping[Variant, str]) -> Iterator[Experiment]:
    for task, row, k, length in product(sweep.tasks, sweep.rows, sweep.k, sweep.prompt_lengths):
        if task not in (row.tasks or sweep.tasks):
            continue
        for place in row.positions or sweep.positions:
            data = row.data or sweep.data
            basis = replace(_basis(sweep, row, length, task, data, sweep), metric=sweep.metrics.get(task)).absolute()
            if place.downstream in BETWEEN_SENTENCES and not basis.facts.pairs:
                continue
            shared = {name: getattr(sweep, name) for name in ("dev_examples", "selection", "warm_up")}
            run = replace(basis, k=k, supplementary_position=place.supplementary, **shared)
            checkpoint = trained.get(Variant(row.label, length, place.supplementary))
            if checkpoint is not None and sweep.supplementary is not None:
                starts: dict[str, Any] = {f"init_{part}_from": checkpoint for part in sweep.supplementary.keep}
                run = replace(run, backbone=checkpoint, **starts)
            others = {other: folder_of(data, other) for other in (sweep.eval_tasks or {}).get(task, [])}
            run = with_others(run, "eval_tasks", others).absolute()  # the folders of other tasks too
            run = replace(run, position=run.best_position if place.downstream == "best" else place.downstream)
            run = with_few_shot_input(run)
            for lr, seed in product(chain(*rates_asked(sweep, row, run)), sweep.seeds):
                yield replace(run, lr=lr, seed=seed)


def _basis(
    sweep: Sweep, row: Row, length: int | None, task: str, data: str | dict[str, str], limits: Sweep | Supplementary
) -> Experiment:
    """Return the run that is common to both stages, without its position, rate and seed."""
    options = {**sweep.options, **row.options}
    if length is not None:
        if "prompt-length" in options:
            given = f"the option prompt-length {options['prompt-length']} of {row.label}"
            raise InputError(f"prompt_lengths and {given}: leave one of them out")
        options["prompt-length"] = length
    backbone = row.backbone or sweep.backbone
    run = Experiment(task, row.method, 0.0, 0, folder_of(data, task), backbone, sweep.arch, row.label)
    starts = {name: getattr(row, name) for name in STARTS}
    limited = {name: getattr(limits, name) for name in ("batch_size", "max_epoch", "max_update")}
    return replace(run, **starts, **limited, options=checked(flags(options)))


def first_stage(sweep: Sweep) -> dict[Variant, Experiment]:
    """Return the runs of supplementary training, one for each variant in positions.

    Raise InputError where a row has no prompts to keep, or no position needs that training.
    """
    how = sweep.supplementary
    if how is None:
        return {}
    runs: dict[Variant, Experiment] = {}
    for row, length in product(sweep.rows, sweep.prompt_lengths):
        for position in (place.supplementary for place in row.positions or sweep.positions):
            if position is None:
                continue
            if "prompts" in how.keep and "prompt_init" not in find_preset(row.method).defaults:
                raise InputError(f"supplementary.keep {how.keep}: {row.label} has no prompts: write keep: []")
            run = _basis(sweep, row, length, how.task, {how.task: how.data}, how).absolute()
            run = replace(run, supplementary=True, position=position, seed=how.seed)
            runs[Variant(row.label, length, position)] = replace(run, lr=how.lr or learning_rates(run)[0])
    if not runs:
        raise InputError(
            "supplementary needs positions of the kind [position in supplementary training, position in the task]: "
            "write one, or leave supplementary out"
        )
    return runs


# --- learning rates that some seeds choose, so that the others need one run each --------------------------------------


class Rates(NamedTuple):
    """The runs of a sweep, seed by seed and K by K, so that those that have ended make a whole table."""

    first: list[Experiment]  # all learning rates with the seeds that choose
    later: list[Experiment]  # all learning rates with the other seeds: one rate of each cell is to be run
    # Rates of lrs_beyond with the seeds that choose: one of a cell at most is to be run.
    beyond: Sequence[Experiment] = ()


def rates_asked(sweep: Sweep, row: Row, run: Experiment) -> tuple[Sequence[float], Sequence[float]]:
    """Return a run's grid and the rates beside it; a row with rates of its own has those that it names."""
    grid = row.lrs or sweep.lrs or learning_rates(run)
    return grid, [lr for lr in row.lrs_beyond or ([] if row.lrs else sweep.lrs_beyond) if lr not in grid]


def rates_of(sweep: Sweep, runs: Iterable[Experiment]) -> Rates:
    """Return the runs that choose learning rates and the others; without ``lr_seeds``, all of them, unchanged."""
    runs = list(runs)
    choosing = sweep.lr_seeds
    if choosing is None:
        return Rates(runs, [])
    runs.sort(key=lambda run: (sweep.seeds.index(run.seed), sweep.k.index(run.k)))
    if sweep.lrs_near:
        near = rates_near(Path(sweep.lrs_near), runs)
        runs = [run for run in runs if run.lr in near[cell_of(run)]]
    first, later = ([run for run in runs if (run.seed in choosing) == chooses] for chooses in (True, False))
    rows = {} if sweep.lrs_near else {row.label: row for row in sweep.rows}
    further = dict.fromkeys(run for run in first if rows and run.lr in rates_asked(sweep, rows[run.row], run)[1])
    return Rates([run for run in first if run not in further], later, list(further))


def cell_of(run: Experiment) -> Experiment:
    """Return what the runs with other learning rates and seeds share."""
    return replace(run, lr=1.0, seed=0)


def rates_near(place: Path, runs: Iterable[Experiment]) -> dict[Experiment, list[float]]:
    """Return for each cell the rate that its row, task and prompt chose with fewer examples, and those beside it."""
    results = read_results(place)
    known = grouped((record for record in results.runs if record["k"] is not None), _cell_without_k)
    near = {}
    for cell, of_cell in grouped(runs, cell_of).items():
        ours = {**vars(cell), "position": cell.prompt_position, "given_options": cell.options}
        fewer = [record for record in known.get(_cell_without_k(ours), ()) if cell.k is None or record["k"] < cell.k]
        most = max((record["k"] for record in fewer), default=None)
        fewer = [record for record in fewer if record["k"] == most]
        check_alike(list(filter(has_finished, fewer)), results)
        best = best_rate(fewer)
        rates = sorted({run.lr for run in of_cell})
        if best not in rates:
            raise InputError(
                f"lrs_near {place}: it has chosen no rate of lrs for {cell.row} on {cell.task} with fewer than "
                f"{cell.k} examples: sweep these first, or leave lrs_near out"
            )
        at = rates.index(best)
        near[cell] = rates[max(0, at - 1) : at + 2]
    return near


def _cell_without_k(run: Run) -> tuple[Any, ...]:
    return (*map(run.get, ("row", "task", "position", "supplementary_position")), asked_options(run).get(LENGTH))


def best_rate(ended: Iterable[Run]) -> float | None:
    """Return the learning rate that reports choose of a cell's finished and diverged runs; None where all diverged.

    Seeds take part that all rates have. A rate at which a seed has diverged is out.
    """
    ended = list(ended)
    out = {record["lr"] for record in ended if has_diverged(record)}
    done = [record for record in ended if has_finished(record) and record["lr"] not in out]
    seeds = [{record["seed"] for record in group} for group in grouped(done, itemgetter("lr")).values()]
    score = choose(record for record in done if all(record["seed"] in known for known in seeds))
    return None if score is None else score.lr


def ended_cells(first: Iterable[Experiment], records: Mapping[str, Run]) -> Iterator[tuple[Experiment, list[Run]]]:
    """Yield the cells whose runs have all finished or diverged, and their records."""
    for cell, runs in grouped(first, cell_of).items():
        ended = [records[run.run] for run in runs if run.run in records]
        if len(ended) == len(runs) and all(has_finished(record) or has_diverged(record) for record in ended):
            yield cell, ended


def beyond_ends(rates: Rates, results: Path) -> list[Experiment]:
    """Return the runs at the rate next to a cell's grid, where the grid's best rate is its end on that side."""
    records = {record["run"]: record for record in read_records(results)}
    beside, found = grouped(rates.beyond, cell_of), []
    for cell, ended in ended_cells(rates.first, records):
        best, grid = best_rate(ended), [record["lr"] for record in ended]
        others = [run.lr for run in beside.get(cell, ())]
        wanted = [min((lr for lr in others if lr > max(grid)), default=None)] if best == max(grid) else []
        wanted += [max((lr for lr in others if lr < min(grid)), default=None)] if best == min(grid) else []
        found += [run for run in beside.get(cell, ()) if run.lr in wanted]
    return found


def with_chosen_rates(rates: Rates, results: Path) -> tuple[list[Experiment], int]:
    """Return the later runs at the chosen learning rates, and the number of cells that have none yet.

    A rate is chosen as in reports, once all first runs of the cell have finished or diverged. Other seeds take part
    where all rates have them, as from another sweep. A rate at which a later seed has diverged is out too.
    """
    records = {record["run"]: record for record in read_records(results)}
    of_later = grouped(rates.later, cell_of)
    lrs = {}
    for cell, first in ended_cells(rates.first, records):
        tried = {record["lr"] for record in first}  # other rates may have only later seeds
        later = [run.run for run in of_later.get(cell, ()) if run.lr in tried and run.run in records]
        lrs[cell] = best_rate([*first, *map(records.__getitem__, later)])
    chosen = [run for run in rates.later if run.lr == lrs.get(cell_of(run))]
    return chosen, sum(lrs.get(cell) is None for cell in of_later)
