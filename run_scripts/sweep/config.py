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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from fairseq_idpg.methods.registry import find_preset
from fairseq_idpg.tasks.positions import POSITIONS
from preprocess.errors import InputError, did_you_mean
from preprocess.flags import LARGEST_SEED
from preprocess.tasks import TASKS

from ..run.experiment import SELECTIONS
from ..run.options import ARCHITECTURES, check_from_file

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Check = Callable[[Any, str], Any]  # (value, where it stands) -> the value as it is used, or an InputError
Kind = TypeVar("Kind", bound="DataclassInstance")
KEPT = ("prompts", "head")
BEST = "best"
OPTION = re.compile(r"[a-z][a-z0-9-]*")
MOST_VALUES = 10_000

# --- YAML ------------------------------------------------------------------------------------------------------------


class PlainYaml(yaml.SafeLoader):
    """YAML whose mappings have every key once, and whose aliases do not make a short file stand for too much.

    Of a key that stands twice PyYAML takes the last without telling.
    """

    def __init__(self, stream: str | bytes) -> None:
        super().__init__(stream)
        self.sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node:
        """Count the nodes within each; what an alias repeats counts each time, though it is held once."""
        node = super().compose_node(parent, index)
        assert node is not None
        inner = list(node.value) if isinstance(node, yaml.SequenceNode) else []
        if isinstance(node, yaml.MappingNode):
            inner = [part for pair in node.value for part in pair]
        self.sizes[node] = 1 + sum(self.sizes[each] for each in inner)
        if self.sizes[node] > MOST_VALUES:
            raise InputError(f"aliases make it stand for more than {MOST_VALUES:,} values: write fewer")
        return node

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)  # before what "<<" names is merged into it
        seen: dict[str, yaml.Node] = {}
        for name in (each for each, _ in node.value if isinstance(each, yaml.ScalarNode)):
            if (first := seen.setdefault(name.value, name)) is not name:
                lines = f"lines {first.start_mark.line + 1} and {name.start_mark.line + 1}"
                raise InputError(f"key {name.value} stands twice, on {lines}: leave one out")
        return node


def read_yaml(source: str | bytes, where: str) -> Any:
    """Return what a YAML text holds: plain values, lists and mappings.

    Raises:
        InputError: it is no YAML, a key stands twice, or aliases make it stand for too much.
    """
    try:
        return yaml.load(source, PlainYaml)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise InputError(f"{where} is no YAML: {' '.join(str(error).split())}") from None  # also "!!bool maybe"


# --- keys and their values -------------------------------------------------------------------------------------------


def key(check: Check, empty: bool = False, **default: Any) -> Any:
    """Return a field whose value must pass ``check``, or each of its values where it is a list; ``empty``: or none."""
    return field(metadata={"check": check, "empty": empty}, **default)


def filled(kind: type[Kind], found: Any, where: str) -> Kind:
    """Return a dataclass from a mapping with its keys and no others.

    Raises:
        InputError: a key is missing or not known, or its value is wrong.
    """
    if not isinstance(found, dict):
        raise InputError(f"{where}: {found!r} is no mapping of keys to values")
    known = {item.name: item for item in fields(kind)}
    for name in found:
        one_of(known)(name, f"{where}: key")
    for name, item in known.items():
        if name not in found and item.default is item.default_factory is MISSING:
            raise InputError(f"{where}: {name} is missing: write it")
    return kind(**{name: _value(known[name], value, f"{where}: {name}") for name, value in found.items()})


def _value(item: Field, value: Any, where: str) -> Any:
    """Return the value of a key; null is as if the key were left out, where it may be."""
    check, kind = item.metadata["check"], str(item.type)
    if value is None and kind.endswith("| None"):
        return None
    if not kind.startswith("list"):
        return check(value, where)
    if not isinstance(value, list) or not (value or item.metadata["empty"]):
        raise InputError(f"{where} {value!r} is not a list with something in it: write [..]")
    return [None if each is None and "None]" in kind else check(each, where) for each in value]


def checked(accepts: Callable[[Any], bool], wanted: str, then: Callable[[Any], Any] = lambda value: value) -> Check:
    """Return a check for values that are accepted; the others are refused, with what is wanted."""

    def check(value: Any, where: str) -> Any:
        if not accepts(value):
            raise InputError(f"{where} {value!r}: write {wanted}")
        return then(value)

    return check


def is_whole_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)  # true is 1 to Python


def is_rate(value: Any) -> bool:
    """Whether it is a learning rate; YAML takes 5e-3, without a point, for a text."""
    try:
        return not isinstance(value, bool) and 0 < float(value) < float("inf")
    except (TypeError, ValueError, OverflowError):
        return False


def one_of(known: Iterable[str]) -> Check:
    """Return a check for one of some names, in upper or lower case."""
    by_lower = {item.lower(): item for item in known}

    def check(value: Any, where: str) -> str:
        if str(value).lower() in by_lower:
            return by_lower[str(value).lower()]
        shown = value if str(value).isprintable() else repr(value)
        hint = did_you_mean(str(value), by_lower.values(), any_case=True)
        raise InputError(f"{where} {shown} is unknown: {hint}Known: {', '.join(by_lower.values())}")

    return check


text = checked(lambda value: isinstance(value, str) and value.isprintable() and value != "", "a name or path")
count = checked(lambda value: is_whole_number(value) and value > 0, "a whole number from 1 on")
seed = checked(
    lambda value: is_whole_number(value) and 0 <= value <= LARGEST_SEED, f"a whole number from 0 to {LARGEST_SEED}"
)
rate = checked(is_rate, "a learning rate such as 5.0e-3", float)
share = checked(
    lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1,
    "a share from 0 up to 1, such as 0.06",
    float,
)
switch = checked(lambda value: isinstance(value, bool), "true or false")
position = checked(lambda value: is_whole_number(value) and value in POSITIONS, "a position from 0 to 4")
setting = checked(  # true and false are numbers to Python
    lambda value: all(isinstance(part, (str, int, float)) for part in (value if isinstance(value, list) else [value])),
    "a text, a number, true or false",
)
mapping = checked(lambda value: isinstance(value, dict), "{NAME: VALUE}")
task = one_of(TASKS)

# --- the sweep -------------------------------------------------------------------------------------------------------


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
    return Place(position(value[0], where), downstream(value[1], where))


def downstream(value: Any, where: str) -> int | str | None:
    return value if value is None or value == BEST else position(value, where)


def method(value: Any, where: str) -> str:
    """A method, or several joined by "+"."""
    return find_preset(text(value, where)).name


def options(value: Any, where: str) -> dict[str, Any]:
    """Options of fairseq-train without ``--``, each once, in either spelling."""
    found: dict[str, Any] = {}
    for name, given in mapping(value, where).items():
        option = str(name).replace("_", "-")
        if OPTION.fullmatch(option) is None or option in found:
            raise InputError(f"{where}: {option!r} is no option, or stands twice: write OPTION: VALUE, without --")
        found[option] = setting(given, f"{where}: {name}")
    return found


def folders(value: Any, where: str) -> str | dict[str, str]:
    """A folder of TASK-bin folders, or a folder for each task."""
    if isinstance(value, dict):
        return {task(name, where): text(folder, f"{where} of {name}") for name, folder in value.items()}
    return text(value, where)


def others(value: Any, where: str) -> dict[str, list[str]]:
    """Tasks that models are to answer besides their own, by the task of the model."""
    if isinstance(value, dict):
        return {task(name, where): tasks(named, where) for name, named in value.items()}
    return {each: [other for other in tasks(value, where) if other != each] for each in TASKS}


def tasks(value: Any, where: str) -> list[str]:
    if not isinstance(value, list):
        raise InputError(f"{where} {value!r}: write a list of tasks, or {{TASK: [TASKS]}}")
    return list(dict.fromkeys(task(each, where) for each in value))


@dataclass(frozen=True)
class Row:
    """One row of a table: a method with options, and whatever else is not as in the rest of the sweep."""

    method: str = key(method)
    name: str | None = key(text, default=None)
    options: dict[str, Any] = key(options, default_factory=dict)
    tasks: list[str] | None = key(task, default=None)
    lrs: list[float] | None = key(rate, default=None)
    positions: list[Any] | None = key(place, default=None)
    backbone: str | None = key(text, default=None)
    data: Any | None = key(folders, default=None)
    init_prompts_from: str | None = key(text, default=None)
    init_head_from: str | None = key(text, default=None)

    @property
    def label(self) -> str:
        return self.name or self.method


def row(value: Any, where: str) -> Row:
    return filled(Row, {"method": value} if isinstance(value, str) else value, where)


@dataclass(frozen=True)
class Supplementary:
    """How the backbone is trained on MNLI, once for each row and position; ``keep``: what else is a start."""

    data: str = key(text, default="data/MNLI-bin")
    task: str = key(task, default="MNLI")
    keep: list[str] = key(one_of(KEPT), empty=True, default_factory=lambda: ["prompts"])
    lr: float | None = key(rate, default=None)
    seed: int = key(seed, default=1)
    batch_size: int | None = key(count, default=None)
    max_epoch: int | None = key(count, default=None)
    max_update: int | None = key(count, default=None)


def supplementary(value: Any, where: str) -> Supplementary:
    return filled(Supplementary, value, where)


@dataclass(frozen=True)
class Sweep:
    """The keys of a file; lists are combined with each other. What is left out is as in the paper."""

    backbone: str = key(text)
    tasks: list[str] = key(task)
    rows: list[Any] = key(row)
    data: Any = key(folders, default="data")
    arch: str = key(one_of(ARCHITECTURES), default="roberta_idpg_large")
    lrs: list[float] | None = key(rate, default=None)
    seeds: list[int] = key(seed, default_factory=lambda: [1, 2, 3, 4, 5])
    lr_seeds: list[int] | None = key(seed, default=None)
    k: list[int | None] = key(count, default_factory=lambda: [None])
    dev_examples: int | None = key(count, default=None)
    selection: str = key(one_of(SELECTIONS), default="clean")
    positions: list[Any] = key(place, default_factory=lambda: [Place(None, None)])
    prompt_lengths: list[int | None] = key(count, default_factory=lambda: [None])
    supplementary: Any | None = key(supplementary, default=None)
    batch_size: int | None = key(count, default=None)
    max_epoch: int | None = key(count, default=None)
    max_update: int | None = key(count, default=None)
    options: dict[str, Any] = key(options, default_factory=dict)
    warm_up: float | None = key(share, default=None)
    keep_whole_models: bool = key(switch, default=False)
    eval_tasks: Any | None = key(others, default=None)
    eval_k: list[int] = key(count, empty=True, default_factory=list)


def read_sweep(path: Path, changes: Sequence[str] = ()) -> Sweep:
    """Read a file; ``changes`` are KEY=VALUE that take the place of what it says, KEY.KEY within a mapping.

    Raises:
        InputError: it is no YAML, or has a key that stands twice, or a key or value that is not known; the file itself
            gives an option that only ``changes`` may give.
    """
    found = read_yaml(path.read_bytes(), str(path))
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
    name, _, value = change.partition("=")
    *outer, last = name.split(".")
    for part in outer:
        found = found.setdefault(part, {}) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        raise InputError(f"--set {change}: there is nothing to set it in: write KEY=VALUE")
    found[last] = read_yaml(value, f"--set {change}")


def _check(sweep: Sweep, path: str) -> None:
    """What keys say together."""
    strange = sorted(set(sweep.lr_seeds or ()) - set(sweep.seeds))
    if strange:
        raise InputError(f"{path}: lr_seeds {sweep.lr_seeds}: seeds has no {strange[0]}: add it there")
    answered = any((sweep.eval_tasks or {}).get(name) for name in sweep.tasks)
    if (sweep.eval_k or sweep.eval_tasks is not None) and not answered:
        raise InputError(
            f"{path}: eval_k {sweep.eval_k}: eval_tasks has no other task for {', '.join(sweep.tasks)}: name one, or "
            "leave it out"
        )
    if sweep.eval_k and sweep.k != [None]:
        raise InputError(f"{path}: eval_k {sweep.eval_k} goes on from models of whole training sets: leave k out")
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
