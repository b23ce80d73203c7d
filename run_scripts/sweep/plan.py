"""The runs that a sweep stands for; with ``lr_seeds`` some of them choose learning rates for the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_idpg.methods.registry import find_preset
from preprocess.errors import InputError
from preprocess.tasks import find_task

from ..report.choice import choose
from ..report.records import Run, grouped, has_finished
from ..run.command import learning_rates, with_few_shot_input
from ..run.experiment import Experiment
from ..run.options import checked, is_switch, takes_true_and_false
from ..run.records import read_records
from ..run.transfer import with_others
from .config import BEST, Row, Supplementary, Sweep
from .stage import has_diverged

MOST_RUNS = 100_000  # that are planned
BETWEEN_SENTENCES = (2, 3)  # positions that single sentences do not have


@dataclass(frozen=True)
class Variant:
    """What a backbone is made for in supplementary training: a row with its prompt length, at a position."""

    row: str
    prompt_length: int | None
    position: int | None


def flags(options: Mapping[str, Any]) -> tuple[str, ...]:
    """{"fp16": True, "amp": False, "dropout": 0} -> --fp16 --dropout 0.

    Raises:
        InputError: an option is false that is neither a flag nor takes this word: left out, its default would count.
    """
    return tuple(word for name, value in options.items() for word in _flag(name, value))


def _flag(name: str, value: Any) -> Iterator[str]:
    option = f"--{name}"
    spelled_out = takes_true_and_false(option)
    if value is False and not spelled_out:
        if not is_switch(option):
            raise InputError(f"options: {name} false: it is no flag that could be left out: write its value")
        return
    yield option
    if value is not True or spelled_out:
        yield str(value).lower() if isinstance(value, bool) else str(value)


def experiments(sweep: Sweep, trained: Mapping[Variant, str]) -> list[Experiment]:
    """The runs on the tasks. Those whose variant is not ``trained`` yet start from the sweep's backbone.

    Args:
        trained: checkpoints of the runs of ``first_stage``.

    Raises:
        InputError: a file or folder is missing, an option has a key of its own, or there are too many runs.
    """
    found = list(islice(_experiments(sweep, trained), MOST_RUNS + 1))
    if len(found) > MOST_RUNS:
        raise InputError(f"the lists stand for more than {MOST_RUNS:,} runs: shorten rows, tasks, lrs or seeds")
    return list(dict.fromkeys(found))


def _experiments(sweep: Sweep, trained: Mapping[Variant, str]) -> Iterator[Experiment]:
    for task, row, k, length in product(sweep.tasks, sweep.rows, sweep.k, sweep.prompt_lengths):
        for place in (row.positions or sweep.positions) if task in (row.tasks or sweep.tasks) else ():
            if place.downstream in BETWEEN_SENTENCES and not find_task(task).pairs:
                continue
            basis = _basis(sweep, row, length, task, row.data or sweep.data)
            checkpoint = trained.get(Variant(row.label, length, place.supplementary))
            basis = replace(
                _start(basis, sweep.supplementary, checkpoint),
                k=k,
                supplementary_position=place.supplementary,
                dev_examples=sweep.dev_examples,
                selection=sweep.selection,
                batch_size=sweep.batch_size,
                max_epoch=sweep.max_epoch,
                max_update=sweep.max_update,
                warm_up=sweep.warm_up,
            )
            elsewhere = (sweep.eval_tasks or {}).get(task, [])
            folders = {other: _folder(row.data or sweep.data, other) for other in elsewhere}
            basis = with_others(basis, "eval_tasks", folders).absolute()
            basis = replace(basis, position=basis.best_position if place.downstream == BEST else place.downstream)
            basis = with_few_shot_input(basis)
            for lr, seed in product(row.lrs or sweep.lrs or learning_rates(basis), sweep.seeds):
                yield replace(basis, lr=lr, seed=seed)


def _basis(sweep: Sweep, row: Row, length: int | None, task: str, data: Any) -> Experiment:
    """What both stages have in common."""
    options = {**sweep.options, **row.options}
    if length is not None:
        if "prompt-length" in options:
            raise InputError(
                f"prompt_lengths and the option prompt-length {options['prompt-length']} of {row.label}: leave one of "
                "them out"
            )
        options["prompt-length"] = length
    return Experiment(
        task=task,
        method=row.method,
        row=row.label,
        lr=0.0,
        seed=0,
        arch=sweep.arch,
        data=_folder(data, task),
        backbone=row.backbone or sweep.backbone,
        init_prompts_from=row.init_prompts_from,
        init_head_from=row.init_head_from,
        options=checked(flags(options)),
    )


def _folder(data: Any, task: str) -> str:
    if isinstance(data, dict):
        if task not in data:
            raise InputError(f"data has no folder of {task}: write data: {{{task}: FOLDER}}")
        return data[task]
    return str(Path(data) / f"{task}-bin")


def _start(basis: Experiment, how: Supplementary | None, checkpoint: str | None) -> Experiment:
    """From the backbone that supplementary training made, and what else of it is kept."""
    if how is None or checkpoint is None:
        return basis
    return replace(
        basis,
        backbone=checkpoint,
        init_prompts_from=checkpoint if "prompts" in how.keep else basis.init_prompts_from,
        init_head_from=checkpoint if "head" in how.keep else basis.init_head_from,
    )


def first_stage(sweep: Sweep) -> dict[Variant, Experiment]:
    """The runs of supplementary training, once for each variant that positions name.

    Raises:
        InputError: a file or folder is missing, or there are no prompts to keep; the training is asked for, and no
            position names one.
    """
    how: Supplementary | None = sweep.supplementary
    if how is None:
        return {}
    found: dict[Variant, Experiment] = {}
    for row, length in product(sweep.rows, sweep.prompt_lengths):
        for position in (place.supplementary for place in row.positions or sweep.positions):
            if position is None:
                continue
            if "prompts" in how.keep and "prompt_init" not in find_preset(row.method).defaults:
                raise InputError(f"supplementary.keep {how.keep}: {row.label} has no prompts: write keep: []")
            run = replace(
                _basis(sweep, row, length, how.task, {how.task: how.data}),
                supplementary=True,
                position=position,
                seed=how.seed,
                batch_size=how.batch_size,
                max_epoch=how.max_epoch,
                max_update=how.max_update,
            ).absolute()
            found[Variant(row.label, length, position)] = replace(run, lr=how.lr or learning_rates(run)[0])
    if not found:
        raise InputError(
            "supplementary has no effect where no positions are [position in supplementary training, position in the "
            "task]: write such, or leave it out"
        )
    return found


# --- learning rates that some seeds choose, so that the others need one run each --------------------------------------


class Rates(NamedTuple):
    """The runs of a sweep, seed by seed and K by K, so that those that have ended make a whole table.

    Attributes:
        first: all learning rates with the seeds that choose.
        later: the same with all other seeds, of which one each is made; none where all seeds choose.
    """

    first: list[Experiment]
    later: list[Experiment]


def rates_of(sweep: Sweep, runs: Iterable[Experiment]) -> Rates:
    """Return the runs that choose learning rates and the others; without ``lr_seeds``, all of them, unchanged."""
    runs = list(runs)
    choosing = sweep.lr_seeds
    if choosing is None:
        return Rates(runs, [])
    runs.sort(key=lambda run: (run.seed not in choosing, sweep.seeds.index(run.seed), sweep.k.index(run.k)))
    return Rates(*([run for run in runs if (run.seed in choosing) == chooses] for chooses in (True, False)))


def by_cell(runs: Iterable[Experiment]) -> dict[Experiment, list[Experiment]]:
    """What runs that differ in learning rate and seed have in common -> the runs."""
    return grouped(runs, lambda run: replace(run, lr=1.0, seed=0))


def chosen_rates(rates: Rates, results: Path) -> dict[Experiment, float]:
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
    lrs = chosen_rates(rates, results)
    cells = by_cell(rates.later).items()
    wanted = {run for cell, runs in cells for run in runs if run.lr == lrs.get(cell)}
    return [run for run in rates.later if run in wanted]


def undecided(rates: Rates, results: Path) -> set[Experiment]:
    """Cells whose first runs have not all ended, or have left no learning rate."""
    return set(by_cell(rates.later)) - set(chosen_rates(rates, results))
