"""Which of the runs a table is made of: one selection, setting and backbone, and one variant of each row."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Callable, Collection, Iterable

from run_scripts.run.records import RunError

from .choice import Choice
from .paper import paper
from .runs import PROMPT, Results, Run, backbone_label, grouped, is_done, kind_of

PLACES = ("data", "save_dir", "representation_cache")  # options that differ between runs with the same result


@dataclass(frozen=True)
class Scope:
    """The runs of a table."""

    done: list[Run]
    failed: list[Run]

    def varying(self, key: Callable[[Run], Any]) -> Scope:
        """The runs of rows and tasks that have finished with more than one value of ``key``."""
        groups = grouped(self.done, _row_and_task)
        vary = {place for place, runs in groups.items() if len({key(run) for run in runs}) > 1}
        return Scope(*([run for run in runs if _row_and_task(run) in vary] for runs in (self.done, self.failed)))


def _row_and_task(run: Run) -> tuple[str, str]:
    return run["row"], run["task"]


def take(
    results: Results,
    choice: Choice,
    ks: Collection[int | None] = (None,),
    free: Collection[str] = (),
    wants: Callable[[Run], bool] = lambda run: True,
) -> Scope:
    """The chosen runs with K of ``ks`` (None: full training) that are wanted.

    Dimensions named in ``free`` may vary within a row.

    Raises:
        RunError: no run is left; there are several selections, backbones or variants of a row and no choice among
            them; two runs differ in nothing that a table shows.
    """
    there = [run for run in results.runs if run["k"] in ks and wants(run)]
    chosen = [run for run in there if choice.accepts(run)]
    done, failed = list(filter(is_done, chosen)), [run for run in chosen if not is_done(run)]
    if not done:
        name = "full run" if None in ks else f"few-shot run with K = {', '.join(map(str, ks))}"
        chosen_by = f" with {choice.options}" if choice.options else ""
        raise RunError(
            f"{results.folder} holds no finished {name} for this{chosen_by}: run it first; "
            f"python -m run_scripts.report {results.folder} lists what is there"
        )
    done = settle(done, choice, results, [dimension.key for dimension in DIMENSIONS if dimension.key not in free])
    _refuse_mixture(done, results)
    _refuse_doubles(done, results)
    return Scope(done, failed)


def settle(runs: list[Run], choice: Choice, results: Results, keys: Collection[str]) -> list[Run]:
    """Runs with one value of each named dimension in each of its groups."""
    for dimension in DIMENSIONS:
        if dimension.key in keys:
            runs = dimension.settle(runs, choice, results)
    return runs


@dataclass(frozen=True)
class Dimension:
    """Something in which runs may differ, and within a group must not.

    Attributes:
        group: what the group is called in messages.
        value: of a run; ``shown``: the same in messages.
        wanted: the value to take where a group has several; None if there is no such wish.
    """

    key: str
    option: str
    group: Callable[[Run, Choice], str]
    value: Callable[[Run], Any]
    shown: Callable[[Run], Any]
    wanted: Callable[[Run, Choice], Any] = lambda run, choice: None

    def settle(self, runs: list[Run], choice: Choice, results: Results) -> list[Run]:
        """The runs with one value in each group."""
        groups = grouped(runs, lambda run: self.group(run, choice))
        return [run for name, group in groups.items() for run in self._settle(name, group, choice, results)]

    def _settle(self, name: str, runs: list[Run], choice: Choice, results: Results) -> list[Run]:
        by_value = grouped(runs, self.value)
        if len(by_value) == 1:
            return runs
        wanted = self.wanted(runs[0], choice)
        if wanted is None or wanted not in by_value:
            shown = [self.shown(group[0]) for group in by_value.values()]
            listed = ", ".join(sorted("none" if value is None else str(value) for value in shown))
            what = self.key.replace("_", " ")
            raise RunError(f"{results.folder}: {name} has runs with more than one {what}: {listed}; give {self.option}")
        return by_value[wanted]


def _plain(key: str, group: Callable[[Run, Choice], str], **more: Any) -> Dimension:
    return Dimension(key, f"--{key.replace('_', '-')}", group, itemgetter(key), itemgetter(key), **more)


def _setting(run: Run, choice: Choice) -> str:
    return f"the {run['setting']} setting"


def _row(run: Run, choice: Choice) -> str:
    return run["row"]


def _row_and_kind(run: Run, choice: Choice) -> str:
    return f"{run['row']} on {kind_of(run['task'])}"


def _backbone_group(run: Run, choice: Choice) -> str:
    """Everything, or a row where several are asked for; supplementary training makes backbones of its own."""
    position = run["supplementary_position"]
    if position is not None:
        return f"{run['row']} after supplementary training with position {position}"
    return run["row"] if choice.backbones else _setting(run, choice)


def _paper_length(run: Run, choice: Choice) -> int | None:
    return choice.prompt_length or paper().prompt_lengths.get(run["row"])


DIMENSIONS = (
    _plain("selection", _setting),
    Dimension("backbone", "--backbone", _backbone_group, lambda run: run["backbone"]["sha256"], backbone_label),
    _plain("prompt_length", _row, wanted=_paper_length),
    _plain("position", _row_and_kind),
    _plain("supplementary_position", _row),
)


def _refuse_mixture(runs: Iterable[Run], results: Results) -> None:
    """Runs of before and after a change of the settings that this package gives belong in tables of their own."""
    protocols = sorted({run.get("protocol") or 1 for run in runs})
    if len(protocols) > 1:
        raise RunError(
            f"{results.folder} has runs made with different versions of the settings (protocol "
            f"{' and '.join(map(str, protocols))}): remove the lines of those below {protocols[-1]}, and sweep again"
        )


def _refuse_doubles(runs: Iterable[Run], results: Results) -> None:
    seen: dict[tuple[Any, ...], Run] = {}
    for run in runs:
        other = seen.setdefault(tuple(run[key] for key in ("row", "task", "k", "lr", "seed", *PROMPT)), run)
        if other is not run:
            raise RunError(
                f"{results.folder}: runs {other['run']} and {run['run']} are both {run['row']} on {run['task']}, lr "
                f"{run['lr']:g}, seed {run['seed']}{_differences(other, run)}: remove the line of one"
            )


def _differences(one: Run, other: Run) -> str:
    first, second = (_flat(run.get("options")) for run in (one, other))
    names = [name for name in first.keys() | second.keys() if first.get(name) != second.get(name)]
    return f" (they differ in {', '.join(sorted(names))})" if names else ""


def _flat(options: Any) -> dict[str, Any]:
    """Options by name, whatever groups they stand in, without those that name places."""
    flat: dict[str, Any] = {}
    for name, value in options.items() if isinstance(options, dict) else ():
        flat.update(_flat(value) if isinstance(value, dict) else {name: value})
    return {name: value for name, value in flat.items() if name not in PLACES}
