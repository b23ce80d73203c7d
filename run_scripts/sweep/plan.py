"""The runs that a sweep stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from fairseq_idpg.methods.registry import find_preset
from preprocess.errors import InputError
from preprocess.tasks import find_task

from ..run.command import learning_rates, with_few_shot_input
from ..run.experiment import Experiment
from ..run.options import checked, is_switch, takes_true_and_false
from ..run.transfer import with_others
from .config import BEST, Row, Supplementary, Sweep

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
        InputError: an option is false that is neither a flag nor takes this word, or a flag has another value.
    """
    return tuple(word for name, value in options.items() for word in _flag(name, value))


def _flag(name: str, value: Any) -> Iterator[str]:
    option = f"--{name}"
    spelled_out = takes_true_and_false(option)
    if value is False and not spelled_out:
        if not is_switch(option):
            raise InputError(f"options: {name} false: it is no flag that could be left out: write its value")
        return
    words = ("True", "False")  # which one flag of fairseq takes
    if is_switch(option) and not isinstance(value, bool) and value not in words:
        raise InputError(f"options: {name} {value!r}: it is a flag: write true or false")
    yield option
    if value is not True or spelled_out:
        yield str(value).lower() if isinstance(value, bool) else str(value)


def experiments(sweep: Sweep, trained: Mapping[Variant, str]) -> list[Experiment]:
    """The runs on the tasks. Those whose variant is not ``trained`` yet start from the sweep's backbone.

    Args:
        trained: checkpoints of the runs of ``first_stage``.

    Raises:
        InputError: a file or folder is missing, or an option has a key of its own.
    """
    return list(dict.fromkeys(_experiments(sweep, trained)))


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
            _check_kept(how, row)
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


def _check_kept(how: Supplementary, row: Row) -> None:
    if "prompts" in how.keep and "prompt_init" not in find_preset(row.method).defaults:
        raise InputError(f"supplementary.keep {how.keep}: {row.label} has no prompts: write keep: []")
