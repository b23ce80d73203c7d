"""The YAML file of a sweep. README.md says what its keys mean; lists are combined with each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from preprocess.cli import check_task_name
from preprocess.errors import InputError, did_you_mean
from preprocess.flags import LARGEST_SEED
from preprocess.split_scores import METRICS, OF_QUESTIONS
from preprocess.tasks import TASKS, known_task

from ..report.records import PAIRS, POSITIONS
from ..run.experiment import ARCHITECTURES, METRICS_OF_OLD, SELECTIONS, STARTS, check_there

OPTION = re.compile(r"[a-z][a-z0-9-]*")
MOST_VALUES = 10_000
OWN_METRICS = [metric for metric in (*METRICS_OF_OLD, *METRICS) if metric not in OF_QUESTIONS]

# --- YAML ------------------------------------------------------------------------------------------------------------


def read_yaml(source: str | bytes, where: str) -> Any:
    """Return the plain values, lists and mappings of a YAML text.

    Raise InputError where it is not YAML, a key stands twice, or aliases make it stand for too much.
    """
    try:
        loader = yaml.SafeLoader(source)
        node = loader.get_single_node()
        if node is None:
            return None
        _count_values(node, {})
        return loader.construct_document(node)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise InputError(f"{where} is not YAML: {' '.join(str(error).split())}") from None  # also "!!bool maybe"


def _count_values(node: yaml.Node, counted: dict[yaml.Node, int]) -> int:
    """Count the values of a node; those that an alias repeats count each time, though they are held once."""
    if node in counted:
        return counted[node]
    parts = node.value if isinstance(node, yaml.CollectionNode) else []
    if isinstance(node, yaml.MappingNode):
        _check_keys(node)
        parts = [part for pair in parts for part in pair]
    counted[node] = 1 + sum(_count_values(part, counted) for part in parts)
    if counted[node] > MOST_VALUES:
        raise InputError(f"aliases make it stand for more than {MOST_VALUES:,} values: write fewer")
    return counted[node]


def _check_keys(node: yaml.MappingNode) -> None:
    """Raise InputError for a key that stands twice: PyYAML would take the last. ``<<`` may repeat one."""
    seen: dict[str, yaml.Node] = {}
    for name in (each for each, _ in node.value if isinstance(each, yaml.ScalarNode)):
        if (first := seen.setdefault(name.value, name)) is not name:
            lines = f"lines {first.start_mark.line + 1} and {name.start_mark.line + 1}"
            raise InputError(f"key {name.value} stands twice, on {lines}: leave one out")


# --- values ----------------------------------------------------------------------------------------------------------


def one_of(known: Iterable[str], kind: str = "") -> Callable[[Any], str]:
    """Return a check for one of these names in upper or lower case; ``kind`` begins its message."""
    by_lower = {item.lower(): item for item in known}

    def check(value: Any) -> str:
        if str(value).lower() in by_lower:
            return by_lower[str(value).lower()]
        shown = value if str(value).isprintable() else repr(value)
        hint = did_you_mean(str(value), by_lower.values(), any_case=True)
        raise ValueError(f"{kind}{shown} is unknown: {hint}choose from {', '.join(by_lower.values())}")

    return check


def task_name(value: Any) -> str:
    """Return the name of a known task as its table has it, and that of own data as it is."""
    if (known := known_task(str(value))) is not None:
        return known.name
    check_task_name(str(value))
    return str(value)


def printable(text: str) -> str:
    if not (text and text.isprintable()):
        raise ValueError(f"{text!r}: write a name or path")
    return text


def hyphenated(options: dict[str, Any]) -> dict[str, Any]:
    """Return options of fairseq-train with hyphens; raise ValueError for ``--`` and for one that stands twice."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        option = name.replace("_", "-")
        if OPTION.fullmatch(option) is None or option in found:
            raise ValueError(f"{option!r} is not an option, or stands twice: write OPTION: VALUE, once and without --")
        found[option] = value
    return found


def by_task(value: Any) -> Any:
    """Return task -> other tasks; in a list of tasks, a model of each answers the others."""
    if not isinstance(value, list):
        return value
    return {name: [other for other in value if str(other).lower() != name.lower()] for name in TASKS}


Kind = TypeVar("Kind")
Several = Annotated[list[Kind], Field(min_length=1)]
Text = Annotated[str, AfterValidator(printable)]
Count = Annotated[int, Field(gt=0)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
# To YAML, 5e-3 without a point is a text.
read_text = BeforeValidator(lambda value: float(value) if isinstance(value, str) else value)
Rate = Annotated[float, read_text, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1)]
Position = Annotated[int, Field(ge=min(POSITIONS[PAIRS]), le=max(POSITIONS[PAIRS]))]
TaskName = Annotated[str, BeforeValidator(task_name)]
KnownTask = Annotated[str, BeforeValidator(one_of(TASKS))]
# or several joined by "+"; the registry imports torch, which other mistakes in a file do without
Method = Annotated[
    Text, AfterValidator(lambda name: import_module("fairseq_idpg.methods.registry").find_preset(name).name)
]
Folders = Text | dict[TaskName, Text]  # a folder of TASK-bin folders, or a folder for each task
Setting = str | int | float | bool
Options = Annotated[dict[str, Setting | list[Setting]], AfterValidator(hyphenated)]
OnceEach = Annotated[list[KnownTask], AfterValidator(lambda tasks: list(dict.fromkeys(tasks)))]
OtherTasks = Annotated[dict[KnownTask, OnceEach], BeforeValidator(by_task)]


class Place(NamedTuple):
    """The prompt's position in supplementary training (None: there is none) and in the task (None: 0).

    ``best`` is the best of Figure 7: 0 in single sentences, 1 in pairs (appendix A.5.2).
    """

    supplementary: Position | None
    downstream: Position | Literal["best"] | None


AnyPlace = Annotated[Place, BeforeValidator(lambda value: value if isinstance(value, list) else [None, value])]

# --- the sweep -------------------------------------------------------------------------------------------------------


class Keys(BaseModel):
    """A mapping with these keys alone; null stands for an optional key that is left out."""

    model_config = ConfigDict(strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, found: Any) -> Any:
        if not isinstance(found, dict):
            raise ValueError(f"{found!r} is not a mapping: write KEY: VALUE")
        known = one_of(cls.model_fields, "key ")
        for name in found:
            if name != known(name):  # pydantic would pass over Seeds
                raise ValueError(f"key {name} is unknown: write {known(name)}")
        return found


class Row(Keys):
    """A row of a table: a method with options, and what differs from the rest of the sweep."""

    method: Method
    name: Text | None = None
    options: Options = {}
    tasks: Several[TaskName] | None = None
    lrs: Several[Rate] | None = None
    lrs_beyond: list[Rate] = []
    positions: Several[AnyPlace] | None = None
    backbone: Text | None = None
    data: Folders | None = None
    init_prompts_from: Text | None = None
    init_head_from: Text | None = None

    @property
    def label(self) -> str:
        return self.name or self.method


class Supplementary(Keys):
    """Training of the backbone on MNLI, once for each row and position.

    ``keep``: the parts that the runs on the tasks take over beside the backbone.
    """

    data: Text = "data/MNLI-bin"
    task: TaskName = "MNLI"
    keep: list[Annotated[str, BeforeValidator(one_of(("prompts", "head")))]] = ["prompts"]
    lr: Rate | None = None
    seed: Seed = 1
    batch_size: Count | None = None
    max_epoch: Count | None = None
    max_update: Count | None = None


class Sweep(Keys):
    """The keys of a file; lists are combined with each other. The defaults are the paper's settings."""

    backbone: Text
    tasks: Several[TaskName]
    rows: Several[Annotated[Row, BeforeValidator(lambda row: {"method": row} if isinstance(row, str) else row)]]
    data: Folders = "data"
    metrics: dict[TaskName, Annotated[str, BeforeValidator(one_of(OWN_METRICS))]] = {}
    arch: Annotated[str, BeforeValidator(one_of(ARCHITECTURES))] = "roberta_idpg_large"
    lrs: Several[Rate] | None = None
    seeds: Several[Seed] = [1, 2, 3, 4, 5]
    lr_seeds: Several[Seed] | None = None
    lrs_beyond: list[Rate] = []
    lrs_near: Text | None = None
    k: Several[Count | None] = [None]
    dev_examples: Count | None = None
    selection: Annotated[str, BeforeValidator(one_of(SELECTIONS))] = "clean"
    positions: Several[AnyPlace] = [Place(None, None)]
    prompt_lengths: Several[Count | None] = [None]
    supplementary: Supplementary | None = None
    batch_size: Count | None = None
    max_epoch: Count | None = None
    max_update: Count | None = None
    options: Options = {}
    warm_up: Share | None = None
    keep_whole_models: bool = False
    eval_tasks: OtherTasks | None = None
    eval_k: list[Count] = []


def read_sweep(path: Path, changes: Sequence[str] = ()) -> Sweep:
    """Return the sweep of a file; ``changes``: KEY=VALUE that replace its values, KEY.KEY within a mapping.

    Raise InputError for a file that is not YAML, an unknown or repeated key, a wrong value, and an option that only
    ``changes`` may give.
    """
    document = read_yaml(path.read_bytes(), str(path))
    of_file = list(_options_within(document))
    for change in changes:
        _apply(change, document)
    try:
        sweep = Sweep.model_validate(document)
    except ValidationError as error:
        raise InputError(f"{path}: {_first_of(error)}") from None

    from ..run.options import check_from_file  # imports torch

    for name, value in of_file:
        check_from_file(name, value, f"{path}: options")
    _check(sweep, str(path))
    return sweep


def _first_of(error: ValidationError) -> str:
    """Return the keys around the first mistake, its value, and the values that are allowed."""
    errors = error.errors()
    # In a union of types, a mistake within the value says more than that the value is of another type.
    first = max((each for each in errors if each["loc"][:1] == errors[0]["loc"][:1]), key=lambda each: len(each["loc"]))
    keys = ": ".join(part for part in first["loc"] if isinstance(part, str) and part.isidentifier() and part != "str")
    if first["type"] == "missing" and isinstance(first["loc"][-1], str):
        return f"{keys} is missing: write it"
    if first["type"] == "value_error":
        return f"{keys}: {first['ctx']['error']}".removeprefix(": ")
    wanted = [each["msg"] for each in errors if each["input"] is first["input"]]  # by each type of a union
    return f"{keys} {first['input']!r}: {' or '.join(wanted)}"


def _options_within(found: Any) -> Iterator[tuple[str, Any]]:
    """Yield the options of a file and of its rows, even of a file with mistakes."""
    rows = found.get("rows") if isinstance(found, dict) else None
    for part in (found, *(rows if isinstance(rows, list) else ())):
        options = part.get("options") if isinstance(part, dict) else None
        yield from options.items() if isinstance(options, dict) else ()


def _apply(change: str, found: Any) -> None:
    name, _, value = change.partition("=")
    *outer, last = name.split(".")
    for part in outer:
        found = found.setdefault(part, {}) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        raise InputError(f"--set {change}: there is nothing to set it in: write KEY=VALUE")
    found[last] = read_yaml(value, f"--set {change}")


def _check(sweep: Sweep, path: str) -> None:
    strange = sorted(set(sweep.lr_seeds or ()) - set(sweep.seeds))
    if strange:
        raise InputError(f"{path}: lr_seeds {sweep.lr_seeds}: seeds lacks {strange[0]}: add it there")
    if sweep.lr_seeds is None and (sweep.lrs_near or sweep.lrs_beyond or any(row.lrs_beyond for row in sweep.rows)):
        raise InputError(f"{path}: lrs_beyond and lrs_near are for the seeds that choose a rate: write lr_seeds too")
    answered = any((sweep.eval_tasks or {}).get(name) for name in sweep.tasks)
    if (sweep.eval_k or sweep.eval_tasks is not None) and not answered:
        raise InputError(
            f"{path}: eval_k {sweep.eval_k}: eval_tasks has no other task for {', '.join(sweep.tasks)}: name one, or "
            "leave it out"
        )
    if sweep.eval_k and sweep.k != [None]:
        raise InputError(f"{path}: eval_k {sweep.eval_k} goes on from models of whole training sets: leave k out")
    for name in sweep.metrics:
        if (known := known_task(name)) or name not in sweep.tasks:
            reason = f"its metric is {known.metric}" if known else f"not in tasks {', '.join(sweep.tasks)}"
            raise InputError(f"{path}: metrics of {name}: {reason}: leave it out")
    for label, number in Counter(row.label for row in sweep.rows).items():
        if number > 1:
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


def folder_of(data: str | dict[str, str], task: str) -> str:
    if isinstance(data, str):
        return str(Path(data) / f"{task}-bin")
    if task not in data:
        raise InputError(f"data has no folder of {task}: write data: {{{task}: FOLDER}}")
    return data[task]


def check_files(sweep: Sweep) -> None:
    """Raise InputError that names all files and folders of a sweep that are missing."""
    how, named = sweep.supplementary, [("backbone", row.backbone or sweep.backbone, "") for row in sweep.rows]
    named += [(name, getattr(row, name), "") for row in sweep.rows for name in STARTS]
    for data, task in ((row.data or sweep.data, task) for row in sweep.rows for task in row.tasks or sweep.tasks):
        tasks = [task, *(sweep.eval_tasks or {}).get(task, [])]
        named += [("data", folder_of(data, each), each) for each in tasks]
    check_there([*named, *([("data", how.data, how.task)] if how else [])])
