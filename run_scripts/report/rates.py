"""What is said of learning rates under a table: those that were tried, and on which seeds they were compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import itemgetter
from typing import Any

from .phrases import places_of, rows_by_place
from .runs import Run, grouped, task_label
from .scores import RowScores


def rates_notes(rows: Mapping[Any, RowScores]) -> list[str]:
    """Notes on learning rates that do not have all the seeds of the chosen one: on which seeds they were compared.

    And which of them was better on these seeds than the chosen one.

    Args:
        rows: scores by (K, row, ...) and task.
    """
    counts: Counter[str] = Counter()
    compared: dict[str, dict[str, list[str]]] = {}
    better = []
    for (k, row, *_), of_row in rows.items():
        for task, score in of_row.items():
            for other in score.others:
                shared, place = score.compared_on(other), task_label(task, k)
                seeds = f"seeds {', '.join(map(str, shared))}" if shared else "no seed"
                counts[seeds] += 1
                names = compared.setdefault(seeds, {}).setdefault(place, [])
                names += [row] if row not in names else []
                if shared and (there := other.dev_on(shared)) > (here := score.dev_on(shared)):
                    better.append(f"{row} on {place}, lr {other.lr:g}: {there:.1f} and not {here:.1f}")
    usual = [seeds for seeds, _ in counts.most_common(1)]
    on = [*usual, *(f"{seeds} ({rows_by_place(places)})" for seeds, places in compared.items() if seeds not in usual)]
    return [
        *([f"learning rates without all of these seeds were compared on {'; '.join(on)}"] if on else []),
        *([f"better there, and left out for want of seeds: {'; '.join(better)}"] if better else []),
    ]


def rates_tried(runs: Iterable[Run], name: Callable[[Run], str] = itemgetter("task")) -> list[str]:
    """The learning rates of finished runs, as most cells of a table have them, and where others were tried.

    Args:
        name: of a run's task, as the table has it.
    """
    counts: Counter[str] = Counter()
    found: dict[str, dict[str, list[str]]] = {}
    for row, of_row in grouped(runs, itemgetter("row")).items():
        tried = _rates_by_place(of_row, name)
        counts.update(tried.values())
        for place, rates in tried.items():
            rows = found.setdefault(rates, {}).setdefault(place if len(set(tried.values())) > 1 else "", [])
            rows += [row] if row not in rows else []
    usual = max(counts, key=counts.__getitem__)
    others = [f"{rates} ({rows_by_place(places)})" for rates, places in found.items() if rates != usual]
    return [f"learning rates tried: {'; '.join([usual, *others])}"]


def _rates_by_place(of_row: Collection[Run], name: Callable[[Run], str]) -> dict[str, str]:
    cells = grouped(of_row, lambda run: task_label(name(run), run["k"]) + places_of(run, of_row))
    return {place: ", ".join(f"{lr:g}" for lr in sorted({run["lr"] for run in cell})) for place, cell in cells.items()}
