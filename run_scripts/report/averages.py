"""Average scores over tasks, which the figures show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Collection, Iterable, Mapping

from run_scripts.run.records import RunError

from .notes import failures, protocol
from .runs import Results, Run, is_prompted
from .scope import Choice, Scope, take
from .scores import Row, mean_dev, mean_test, rows_of


@dataclass(frozen=True)
class Averages:
    """Rows, by name or another key, and the tasks that averages are over: a row that lacks one has none."""

    scope: Scope
    tasks: tuple[str, ...]
    rows: Mapping[Any, Row]

    def mean(self, key: Any) -> float | None:
        """Of the test scores, x100."""
        return mean_test(self.rows.get(key, {}), self.tasks)

    def dev(self, key: Any) -> float | None:
        return mean_dev(self.rows.get(key, {}), self.tasks)

    @property
    def label(self) -> str:
        return f"mean test score over {len(self.tasks)} task{'s' * (len(self.tasks) > 1)} (x100)"

    @property
    def notes(self) -> list[str]:
        return average_notes(self.scope, self.tasks)


def average_notes(scope: Scope, tasks: Collection[str]) -> list[str]:
    over = f"scores: means over {', '.join(tasks)}; a row without one of them is missing"
    return [*protocol(scope, tasks), over, *failures(scope.failed)]


def take_averages(
    results: Results,
    choice: Choice,
    wants: Callable[[Run], bool],
    key: Callable[[Run], Any],
) -> Averages:
    """Averages over the tasks that were asked for, or over all that have runs.

    Raises:
        RunError: see ``take``; no row has runs of all tasks.
    """
    scope = take(results, choice, wants=wants)
    found = Averages(scope, tasks_of(scope, choice), rows_of(scope.done, key, scope.failed))
    refuse_empty(results, found.tasks, [found.mean(name) for name in found.rows])
    return found


def take_varying(results: Results, choice: Choice, free: Collection[str]) -> Scope:
    """The runs with prompts that differ in what ``free`` names, within a row and task.

    Raises:
        RunError: see ``take``; there are no such runs.
    """
    scope = take(results, choice, (choice.k,), free, is_prompted).varying(free)
    if not scope.done:
        what = " or ".join(name.replace("_", " ") for name in free)
        raise RunError(f"{results.folder}: no row has runs of a task with more than one {what}: run a sweep of them")
    return scope


def refuse_empty(results: Results, tasks: Collection[str], scores: Iterable[float | None]) -> None:
    if all(score is None for score in scores):
        raise RunError(f"{results.folder}: no row has runs of all of {', '.join(tasks)}: name fewer with --tasks")


def tasks_of(scope: Scope, choice: Choice) -> tuple[str, ...]:
    there = {run["task"] for run in scope.done}
    return choice.tasks or tuple(task for task in choice.columns if task in there)
