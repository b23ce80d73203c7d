"""The YAML file of a sweep.

backbone: checkpoints/roberta.large/model.pt     # paths as seen from where the sweep is started
arch: roberta_idpg_large
data: data                                       # folder of TASK-bin, or {TASK: folder}
tasks: [CR, MR]
rows:                                            # methods, or variants of them with a name
  - prompt-tuning
  - {name: S-256-layer0, method: m-idpg-phm, options: {generator-sharing: S, generator-hidden-size: 256}}
lrs: [5.0e-3, 1.0e-3]                            # default: the paper's grid for the setting
seeds: [1, 2, 3, 4, 5]
lr_seeds: [1]                                    # these choose the learning rate, with their mean dev score; the other
                                                 # seeds have that rate alone. Runs then come seed by seed
positions: [0, [4, 1], best]                     # of the prompt; [where it was in supplementary training, where it is];
                                                 # best: 0, for pairs 1; default: 0
supplementary: {data: data/MNLI-bin}             # that training of the whole model on MNLI (appendix A.4)
eval_tasks: [CR, MR]                             # each model also answers the others of these, as it is; or
                                                 # {CR: [MR]}: which tasks a model of which task answers
eval_k: [100]                                    # and goes on to be trained on so many examples of each of them
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_idpg.methods.registry import find_preset
from preprocess.errors import InputError
from preprocess.tasks import TASKS

from ..run.command import learning_rates
from ..run.experiment import SELECTIONS, Experiment
from ..run.keys import filled, key, least, one_of, random_seed, rate, share, text
from ..run.options import architecture, check_from_file
from .plain_yaml import read_yaml

KEPT = ("prompts", "head")
BEST = "best"
OPTION = re.compile(r"[a-z][a-z0-9-]*")
MOST_RUNS = 100_000
task = one_of(TASKS)


@dataclass(frozen=True)
class Place:
    """Where the prompt is in supplementary training (None: there is none) and in the task (None: 0).

    ``best`` is the place that Figure 7 finds best in the tasks: 0 in single sentences, 1 in pairs (appendix A.5.2).
    """

    supplementary: int | None
    downstream: int | str | None


def place(value: Any, where: str) -> Place:
    if not isinstance(value, list):
        return Place(None, downstream(value, where))
    if len(value) != 2:
        raise InputError(f"{where} {value}: write [position in supplementary training, position in the task]")
    return Place(least(0)(value[0], where), downstream(value[1], where))


def downstream(value: Any, where: str) -> int | str | None:
    return value if value in (None, BEST) else least(0)(value, where)


def method(value: str, where: str) -> str:
    """A method, or several joined by "+"."""
    try:
        return find_preset(value).name
    except InputError as error:
        raise InputError(f"{where}: {str(error).removeprefix('--method ')}") from None


def options(value: dict[str, Any], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, setting in value.items():
        option = str(name).replace("_", "-")
        if OPTION.fullmatch(option) is None:
            raise InputError(f"{where}: {name!r} is no option: write OPTION: VALUE, without --")
        if option in found:
            raise InputError(f"{where}: {option} stands twice: leave one out")
        parts = setting if isinstance(setting, list) else [setting]
        if not all(isinstance(part, (str, int, float)) for part in parts):  # true and false are numbers to Python
            raise InputError(f"{where}: {name} {setting!r}: write a text, a number, true or false")
        found[option] = setting
    return found


def folders(value: Any, where: str) -> str | dict[str, str]:
    """A folder of TASK-bin folders, or a folder for each task."""
    if isinstance(value, dict):
        return {task(name, where): text(folder, f"{where} of {name}") for name, folder in value.items()}
    return text(value, where)


def others(value: Any, where: str) -> dict[str, list[str]]:
    """Tasks that models are to answer besides their own, by the task of the model."""
    if not isinstance(value, dict):
        named = _tasks(value, where)
        return {each: [other for other in named if other != each] for each in TASKS}
    found = {task(name, where): _tasks(named, f"{where} of {name}") for name, named in value.items()}
    for name, named in found.items():
        if name in named:
            raise InputError(f"{where} of {name}: its model is scored on {name} as it is: name other tasks")
    return found


def _tasks(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not value:
        raise InputError(f"{where} {value!r}: write a list of tasks, or {{TASK: [TASKS]}}")
    return list(dict.fromkeys(task(each, where) for each in value))


@dataclass(frozen=True)
class Row:
    """One row of a table: a method with options, and whatever else is not as in the rest of the sweep."""

    method: str = key(method)
    name: str = ""
    options: dict[str, Any] = key(options, default_factory=dict)
    tasks: list[str] | None = key(task, default=None)
    lrs: list[float] | None = key(rate, default=None)
    positions: list[Any] | None = key(place, default=None)
    backbone: str | None = None
    data: Any | None = key(folders, default=None)
    init_prompts_from: str | None = None
    init_head_from: str | None = None

    @property
    def label(self) -> str:
        return self.name or self.method


def row(value: Any, where: str) -> Row:
    return filled(Row, {"method": value} if isinstance(value, str) else value, where)


@dataclass(frozen=True)
class Supplementary:
    """How the backbone is trained on MNLI, once for each row and position; ``keep``: what else is a start."""

    data: str = "data/MNLI-bin"
    task: str = key(task, default="MNLI")
    keep: list[str] = key(one_of(KEPT), empty=True, default_factory=lambda: ["prompts"])
    lr: float | None = key(rate, default=None)
    seed: int = key(random_seed, default=1)
    batch_size: int | None = key(least(1), default=None)
    max_epoch: int | None = key(least(1), default=None)
    max_update: int | None = key(least(1), default=None)


def supplementary(value: Any, where: str) -> Supplementary:
    return filled(Supplementary, value, where)


@dataclass(frozen=True)
class Sweep:
    """The keys of a file; lists are combined with each other. What is left out is as in the paper."""

    backbone: str = key(text)
    tasks: list[str] = key(task)
    rows: list[Any] = key(row)
    data: Any = key(folders, default="data")
    arch: str = key(architecture, default="roberta_idpg_large")
    lrs: list[float] | None = key(rate, default=None)
    seeds: list[int] = key(random_seed, default_factory=lambda: [1, 2, 3, 4, 5])
    lr_seeds: list[int] | None = key(random_seed, default=None)
    k: list[int | None] = key(least(1), default_factory=lambda: [None])
    dev_examples: int | None = key(least(1), default=None)
    selection: str = key(one_of(SELECTIONS), default="clean")
    positions: list[Any] = key(place, default_factory=lambda: [Place(None, None)])
    prompt_lengths: list[int | None] = key(least(1), default_factory=lambda: [None])
    supplementary: Any | None = key(supplementary, default=None)
    batch_size: int | None = key(least(1), default=None)
    max_epoch: int | None = key(least(1), default=None)
    max_update: int | None = key(least(1), default=None)
    options: dict[str, Any] = key(options, default_factory=dict)
    warm_up: float | None = key(share, default=None)
    keep_whole_models: bool = False
    eval_tasks: Any | None = key(others, default=None)
    eval_k: list[int] = key(least(1), empty=True, default_factory=list)


def read_sweep(path: Path, changes: Sequence[str] = ()) -> Sweep:
    """Reads a file; ``changes`` are KEY=VALUE that take the place of what it says, KEY.KEY within a mapping.

    Raises:
        InputError: it is missing, no YAML, or has a key that stands twice, or a key or value that is not known; the
            nearest is suggested; the file itself gives an option that only ``changes`` may give.
    """
    try:
        found = read_yaml(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}: give a YAML file, such as run_scripts/configs/smoke.yaml"
        ) from None
    of_file = list(_options_within(found))
    for change in changes:
        _apply(change, found)
    sweep = filled(Sweep, found, str(path))
    for name, value in of_file:
        check_from_file(name, value, f"{path}: options")
    _check(sweep, str(path))
    return sweep


def _options_within(found: Any) -> Iterator[tuple[str, Any]]:
    """The options of a file and of its rows, however else it is damaged."""
    rows = found.get("rows") if isinstance(found, dict) else None
    for part in (found, *(rows if isinstance(rows, list) else ())):
        options = part.get("options") if isinstance(part, dict) else None
        yield from options.items() if isinstance(options, dict) else ()


def _apply(change: str, found: Any) -> None:
    name, equals, value = change.partition("=")
    if not equals:
        raise InputError(f"--set {change} is no KEY=VALUE: write, say, seeds=[1,2]")
    *outer, last = name.split(".")
    for part in outer:
        found = found.setdefault(part, {}) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        raise InputError(f"--set {change}: there is nothing to set it in: write KEY=VALUE")
    found[last] = read_yaml(value, f"--set {change}")


def count_runs(sweep: Sweep) -> int:
    """How many runs the lists stand for, before equal ones and positions that single sentences lack are left out."""
    answers = {task: 1 + len((sweep.eval_tasks or {}).get(task, ())) * len(sweep.eval_k) for task in sweep.tasks}
    of_rows = 0
    for row in sweep.rows:
        lrs = row.lrs or sweep.lrs or learning_rates(Experiment(sweep.tasks[0], row.method, 0.0, 0, "", ""))
        tasks = sum(answers[task] for task in row.tasks or sweep.tasks)
        of_rows += tasks * len(row.positions or sweep.positions) * len(lrs)
    return of_rows * len(sweep.k) * len(sweep.prompt_lengths) * len(sweep.seeds)


def _check(sweep: Sweep, path: str) -> None:
    """What keys say together."""
    strange = sorted(set(sweep.lr_seeds or ()) - set(sweep.seeds))
    if strange:
        raise InputError(f"{path}: lr_seeds {sweep.lr_seeds}: seeds has no {strange[0]}: add it there")
    if sweep.eval_k and sweep.eval_tasks is None:
        raise InputError(f"{path}: eval_k {sweep.eval_k} needs tasks to go on with: write eval_tasks: [TASK]")
    if sweep.dev_examples and sweep.selection == "paper" and sweep.k == [None] and not sweep.eval_k:
        raise InputError(
            f"{path}: dev_examples {sweep.dev_examples} has no effect with selection: paper, which chooses on what is "
            "reported: leave one of them out"
        )
    if sweep.eval_k and sweep.k != [None]:
        raise InputError(f"{path}: eval_k {sweep.eval_k} goes on from models of whole training sets: leave k out")
    if sweep.eval_tasks is not None and not any(sweep.eval_tasks.get(name) for name in sweep.tasks):
        raise InputError(
            f"{path}: eval_tasks has no other task for {', '.join(sweep.tasks)}: name one, or leave it out"
        )
    for label, count in Counter(row.label for row in sweep.rows).items():
        if count > 1:
            raise InputError(f"{path}: rows: two are called {label}: give one of them another name")
    for row in sweep.rows:
        left = sorted(set(row.tasks or ()) - set(sweep.tasks))
        if left:
            raise InputError(f"{path}: rows: {row.label} has the task {left[0]}, which tasks has not: add it there")
        if sweep.supplementary is None and any(p.supplementary is not None for p in row.positions or sweep.positions):
            raise InputError(
                f"{path}: positions of {row.label}: [a, b] needs supplementary training: write "
                "supplementary: {data: data/MNLI-bin}"
            )
    if (runs := count_runs(sweep)) > MOST_RUNS:
        raise InputError(
            f"{path}: its lists stand for {runs:,} runs, and {MOST_RUNS:,} are planned at most: shorten rows, tasks, "
            "lrs, seeds or another list"
        )
