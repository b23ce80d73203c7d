"""What models of one task say of another: as they are (zero-shot), or trained on K of its examples (few-shot)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from statistics import mean

from preprocess.errors import InputError

from ..run.metrics import ACC_AND_MACRO_F1, MACRO_F1
from ..run.transfer import arrow
from .comparable import TESTED, refuse_mixture
from .notes import (
    data_note,
    failures,
    incomplete,
    metrics_note,
    options_note,
    seeds_of,
    selection_notes,
    settings_note,
    variants_note,
    versions_note,
)
from .rates import rates_notes, rates_tried
from .render import MISSING, NOTHING, Table
from .runs import Results, Run, grouped, has_finished
from .scope import Choice, Scope, settle, take_runs
from .scores import RowScores, Score, rows_of
from .tables import score_text, seeds_text

HEADER = ["transfer", "K", "method", "test", "accuracy", "macro F1", "mean of both", "lr"]
NOTES = (
    "QQP → MRPC: trained on QQP, tested on MRPC; labels matched by what they mean",
    "K -: the model as it is, at the learning rate with the best mean dev score on the task that it was trained on",
    "with K: trained on K examples of the second task, drawn anew for each seed, from what the same seed and learning "
    "rate left on the first; the learning rate with the best mean dev score on the second",
)


@dataclass(frozen=True)
class Pair:
    """Finished and failed runs of one task's models on another, by K (None: as they are) and row."""

    source: str
    target: str
    scope: Scope
    rows: dict[tuple[int | None, str], RowScores]

    @property
    def name(self) -> str:
        return arrow(self.source, self.target)

    def score(self, k: int | None, row: str) -> Score | None:
        return self.rows[k, row].get(self.target)


def answers(results: Results) -> Iterator[Run]:
    """A run for each score on another task: its task is that one, ``source_task`` the one that it was trained on.

    A run that failed would have answered what others of its task have.
    """
    full = [run for run in results.runs if run["k"] is None]
    of_tasks = grouped(full, itemgetter("task")).items()
    asked = {task: sorted({other for run in runs for other in run.get("transfer") or ()}) for task, runs in of_tasks}
    for run in full:
        own = {"source_task": run["task"], "metric": None, "test": None}
        for task in asked[run["task"]] if not has_finished(run) else ():
            yield {**run, **own, "task": task}
        for task, found in (run.get("transfer") or {}).items() if has_finished(run) else ():
            scores = {"dev": (run.get("scores") or {}).get("dev") or {}, "test": found["scores"]}
            said = {"metric": found["metric"], "test": found["test"], TESTED: found.get("data")}
            yield {**run, **own, **said, "task": task, "scores": scores}
    yield from results.continued


def pairs_of(results: Results, choice: Choice) -> list[Pair]:
    """The pairs that have runs, of the tasks that were asked for.

    Raises:
        InputError: see ``take_runs``; there are none; two pairs have other selections, backbones or settings of ours.
    """
    found = []
    for (source, target), runs in grouped(answers(results), lambda run: (run["source_task"], run["task"])).items():
        if choice.tasks and not {source, target} <= set(choice.tasks):
            continue
        ks = {run["k"] for run in runs}
        of_pair, chosen = Results(results.place, tuple(runs)), replace(choice, tasks=(target,))
        if any(has_finished(run) and chosen.accepts(run) for run in runs):
            scope = take_runs(of_pair, chosen, ks)
            found.append(
                Pair(source, target, scope, rows_of(scope.done, lambda run: (run["k"], run["row"]), scope.failed))
            )
    if not found:
        by = f" with {choice.options}" if choice.options else ""
        raise InputError(
            f"{results.place} holds no model that answered another task{by}: run a sweep with --eval-tasks first"
        )
    done = [run for pair in found for run in pair.scope.done]
    refuse_mixture(settle(done, choice, results, ("selection", "backbone")), results)
    return found


def transfer_table(results: Results, choice: Choice) -> Table:
    """A line for each pair of tasks, K and row.

    Raises:
        InputError: see ``pairs_of``.
    """
    pairs = pairs_of(results, choice)
    names = choice.pick(name for pair in pairs for _, name in pair.rows)
    both = Scope(
        [run for pair in pairs for run in pair.scope.done], [run for p in pairs for run in p.scope.failed], choice.seeds
    )
    seeds, groups = seeds_of(both), []
    for pair in pairs:
        for k in sorted({k for k, _ in pair.rows}, key=lambda k: k or 0):
            rows = [name for name in names if (k, name) in pair.rows]
            shown = NOTHING if k is None else str(k)
            groups.append([[pair.name, shown, name, *cells(pair.score(k, name), len(seeds))] for name in rows])
    by_k: dict[tuple[int | None, str], dict[str, Score]] = {}
    for pair in pairs:
        for place in pair.rows:
            if score := pair.score(*place):
                by_k.setdefault(place, {})[pair.name] = score
    notes = [settings_note(seeds), *NOTES, *rates_tried(both.done, pair_of), *rates_notes(by_k)]
    notes += selection_notes(both.done)
    notes += [metrics_note([pair.target for pair in pairs])]
    notes += [variants_note(both.done), *options_note(both.done)]
    notes += data_note(both.done, pair_of)
    notes += versions_note(both.done)
    notes += [*incomplete(by_k, seeds), *failures(both.failed)]
    return Table("Transfer between tasks", 3, HEADER, groups, notes)


def pair_of(run: Run) -> str:
    return arrow(run["source_task"], run["task"])


def cells(score: Score | None, seeds: int) -> list[str]:
    """Of the header, from the score on."""
    if score is None:
        return [MISSING] * (len(HEADER) - 3)
    parts = [mean_of(score, part) for part in ("accuracy", MACRO_F1, ACC_AND_MACRO_F1)]
    return [seeds_text(score, seeds), *(score_text(part) for part in parts), f"{score.lr:g}"]


def mean_of(score: Score, part: str) -> float | None:
    """Over the seeds; None where a run does not say."""
    found = [(run.get("scores") or {}).get("test", {}).get(part) for run in score.runs]
    return None if None in found else mean(found)
