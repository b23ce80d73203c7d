"""The YAML file of a campaign, and the experiments that it stands for.

backbone: checkpoints/roberta.large/model.pt     # paths as seen from where the sweep is started
arch: roberta_idpg_large
data: data                                       # folder of TASK-bin, or {TASK: folder}
tasks: [CR, MR]
rows:                                            # methods, or variants of them with a name
  - prompt-tuning
  - {name: S-256-layer0, method: m-idpg-phm, options: {generator-sharing: S, generator-hidden-size: 256}}
lrs: [5.0e-3, 1.0e-3]                            # default: the paper's grid for the setting
seeds: [1, 2, 3, 4, 5]
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Iterable

import yaml

from preprocess.tasks import find_task

from .commands import learning_rates
from .experiment import SELECTIONS, Experiment
from .records import RunError
from .train import absolute

Options = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One row of a table: a method with options; its own learning rates or tasks, if it has some."""

    name: str
    method: str
    options: Options = field(default_factory=dict)
    lrs: list[float] | None = None
    tasks: list[str] | None = None


@dataclass(frozen=True)
class Start:
    """A backbone that supplementary training made, and what is kept of it besides."""

    position: int
    backbone: str
    init_prompts_from: str | None = None
    init_head_from: str | None = None


@dataclass(frozen=True)
class Sweep:
    """The keys of a file; lists are combined with each other. What is left out is as in the paper."""

    backbone: str
    tasks: list[str]
    rows: list[Row]
    data: Any = "data"
    arch: str = "roberta_idpg_large"
    lrs: list[float] | None = None
    seeds: list[int] = field(default_factory=lambda: [1, 2, 3, 4, 5])
    k: list[int | None] = field(default_factory=lambda: [None])
    dev: int | None = None
    selection: str = "clean"
    positions: list[int | None] = field(default_factory=lambda: [None])
    prompt_lengths: list[int | None] = field(default_factory=lambda: [None])
    supplementary: list[Start] = field(default_factory=list)
    batch_size: int | None = None
    max_epoch: int | None = None
    max_update: int | None = None
    options: Options = field(default_factory=dict)


def read_sweep(path: Path) -> Sweep:
    """Reads a file.

    Raises:
        RunError: it is missing, no YAML, or has a key or value that is not known; the nearest is suggested.
    """
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}: give a YAML file, such as run_scripts/configs/smoke.yaml") from None
    except yaml.YAMLError as error:
        raise RunError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    sweep = _known(Sweep, found, str(path))
    return replace(
        sweep,
        tasks=[find_task(task).name for task in _list(sweep.tasks, f"{path}: tasks")],
        rows=[_row(row, str(path)) for row in _list(sweep.rows, f"{path}: rows")],
        supplementary=[_known(Start, start, f"{path}: supplementary") for start in sweep.supplementary],
        selection=_choice(sweep.selection, SELECTIONS, f"{path}: selection"),
        seeds=_numbers(sweep.seeds, int, f"{path}: seeds"),
        lrs=sweep.lrs and _numbers(sweep.lrs, float, f"{path}: lrs"),
        k=_list(sweep.k, f"{path}: k"),
        positions=_list(sweep.positions, f"{path}: positions"),
        prompt_lengths=_list(sweep.prompt_lengths, f"{path}: prompt_lengths"),
    )


def _row(row: Any, where: str) -> Row:
    if isinstance(row, str):
        return Row(row, row)
    made = _known(Row, {"name": (row or {}).get("method"), **(row or {})}, f"{where}: rows")
    lrs = made.lrs and _numbers(made.lrs, float, f"{where}: lrs of {made.name}")
    return replace(made, lrs=lrs, tasks=made.tasks and [find_task(task).name for task in made.tasks])


def _known(kind: Any, found: Any, where: str) -> Any:
    """A dataclass from a mapping with its keys and no others."""
    if not isinstance(found, dict):
        raise RunError(f"{where}: {found!r} is no mapping of keys to values")
    keys = [f.name for f in fields(kind)]
    for key in found:
        if key not in keys:
            near = get_close_matches(str(key), keys, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise RunError(f"{where}: key {key} is unknown: {hint}Known: {', '.join(keys)}")
    try:
        return kind(**found)
    except TypeError as error:
        raise RunError(f"{where}: {str(error).split('__init__() ')[-1]}: write it") from None


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise RunError(f"{where} {value!r} is not a list with something in it: write [..]")
    return value


def _choice(value: str, known: Iterable[str], where: str) -> str:
    if value not in known:
        raise RunError(f"{where} {value} is unknown: give {' or '.join(known)}")
    return value


def _numbers(values: Any, kind: type, where: str) -> list[Any]:
    try:
        return [kind(value) for value in _list(values, where)]
    except (TypeError, ValueError):
        raise RunError(f"{where} {values} are not numbers: write them as 1 or 5.0e-3") from None


def flags(options: Options) -> tuple[str, ...]:
    """{"fp16": True, "dropout": 0} -> --fp16 --dropout 0."""
    found: list[str] = []
    for name, value in options.items():
        found += [f"--{str(name).replace('_', '-')}"] + ([] if value is True else [str(value)])
    return tuple(found)


def experiments(sweep: Sweep) -> list[Experiment]:
    """All runs of a campaign.

    Raises:
        RunError: a file or folder is missing.
        InputError: a method is unknown.
    """
    starts = sweep.supplementary or [None]
    found = []
    for task, row, k, position, length, start in itertools.product(
        sweep.tasks, sweep.rows, sweep.k, sweep.positions, sweep.prompt_lengths, starts
    ):
        if row.tasks and task not in row.tasks:
            continue
        options = {**sweep.options, **row.options, **({} if length is None else {"prompt-length": length})}
        shape = {name: getattr(sweep, name) for name in ("arch", "dev", "selection", "batch_size", "max_epoch")}
        basis = Experiment(
            **{"task": task, "method": row.method, "row": row.name, "lr": 0.0, "seed": 0, "k": k, "position": position},
            **{"data": _folder(sweep.data, task), "backbone": sweep.backbone, "max_update": sweep.max_update},
            **{**shape, "options": flags(options)},
        )
        if start is not None:
            given = asdict(start)
            basis = replace(basis, supplementary_position=given.pop("position"), **given)
        basis = absolute(basis)
        for lr, seed in itertools.product(row.lrs or sweep.lrs or learning_rates(basis), sweep.seeds):
            found.append(replace(basis, lr=lr, seed=seed))
    return list(dict.fromkeys(found))


def _folder(data: Any, task: str) -> str:
    if isinstance(data, dict):
        if task not in data:
            raise RunError(f"data has no folder of {task}: write data: {{{task}: FOLDER}}")
        return str(data[task])
    return f"{data}/{task}-bin"
