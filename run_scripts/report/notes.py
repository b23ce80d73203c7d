"""What is said under a table: how its numbers came about, what is missing, what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import itemgetter
from typing import Any

from preprocess.tasks import TASKS

from .choice import CHOSEN, FINGERPRINTS, LENGTH, TESTED, Scope, versions_of_data
from .records import (
    NOT_RECORDED,
    PROMPT,
    Run,
    architecture,
    asked_options,
    backbone_label,
    cell_label,
    grouped,
    hardware_of,
    is_hopeless,
    is_prompted,
    kind_of,
    task_label,
)
from .scores import RowScores, rows_of


def places_of(run: Run, runs: Collection[Run]) -> str:
    """What of a run's prompt others of ``runs`` have otherwise."""
    differing = [key for key in PROMPT if len({other[key] for other in runs}) > 1]
    return "".join(f", {key.replace('_', ' ')} {run[key]}" for key in differing)


def distinct(runs: Iterable[Run], value: Callable[[Run], Any]) -> str:
    return ", ".join(map(str, sorted({value(run) for run in runs})))


def rows_by_place(found: Mapping[str, list[str]]) -> str:
    """Place -> rows; the place "" is everywhere."""
    return "; ".join(", ".join(rows) + (place and f" on {place}") for place, rows in found.items())


def of_rows(runs: Iterable[Run], value: Callable[[Run], str]) -> str:
    """The value that all runs have, or each with the rows that have it."""
    found = {each: dict.fromkeys(run["row"] for run in group) for each, group in grouped(runs, value).items()}
    return ", ".join(f"{each} ({', '.join(found[each])})" if len(found) > 1 else each for each in sorted(found))


# --- learning rates: those that were tried, and on which seeds they were compared ----------------


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


# --- what stands under a table -------------------------------------------------------------------

MEAN_OF = {
    "acc_and_f1": "mean of accuracy and F1",
    "pearson_and_spearman": "mean of Pearson's and Spearman's correlation",
    "mcc": "Matthews correlation",
    "acc_and_macro_f1": "mean of accuracy and macro F1",
    "choice_accuracy": "accuracy of the chosen answers",
    "f1a_and_em": "mean of F1 over all answers and of questions without a mistake",
    "choice_f1_and_em": "mean of F1 and exact match of the chosen answers",
}
CODE = ("fairseq_idpg", "torch")
AS_THE_AUTHORS = (
    "as in the authors' scripts: a checkpoint by its accuracy, of STS-B by its loss, of tasks that they have not by "
    "the metric that is reported"
)
CHOSEN_ON = {
    ("full", "clean"): "examples held out of the training set",
    ("full", "paper"): f"the reported split itself, {AS_THE_AUTHORS}",
    ("few-shot", "clean"): "a development set drawn with the training examples",
    ("few-shot", "paper"): f"a development set drawn with the training examples, {AS_THE_AUTHORS}",
}


def protocol(scope: Scope, tasks: Collection[str], scores: str = "ours") -> list[str]:
    """Selection, seeds, metrics, and the backbones and prompts of the runs; ``scores`` is what a table calls them."""
    return [
        f"{settings_note(seeds_of(scope), scores)}, at the learning rate with the best mean dev score of each row and "
        "task",
        *rates_tried(scope.done),
        *rates_notes(rows_of(scope.done, itemgetter("k", "row", *PROMPT), scope.failed)),
        *selection_notes(scope.done),
        *sizes_note(scope.done),
        metrics_note(tasks),
        variants_note(scope.done),
        *options_note(scope.done),
        *data_note(scope.done),
        *versions_note(scope.done),
    ]


def selection_notes(runs: Iterable[Run]) -> list[str]:
    """What learning rate and checkpoint were chosen on, of each setting."""
    return [
        f"setting {setting}{_examples(group)}; selection {selection}: learning rate and checkpoint chosen on "
        f"{CHOSEN_ON[setting, selection]}"
        for (setting, selection), group in grouped(runs, itemgetter("setting", "selection")).items()
    ]


def _examples(runs: Iterable[Run]) -> str:
    """Of few-shot training."""
    ks = {run["k"] for run in runs} - {None}
    return f" with K = {', '.join(map(str, sorted(ks)))}" if ks else ""


def sizes_note(runs: Iterable[Run]) -> list[str]:
    """Of development and test sets, as far as records say: of a small training set less is left to choose with."""
    found: dict[str, list[str]] = {}
    unknown = []
    for place, group in grouped(runs, lambda run: task_label(run["task"], run["k"])).items():
        known = dict.fromkeys("{dev:,} and {test:,}".format(**run["examples"]) for run in group if run.get("examples"))
        for both in known:
            found.setdefault(both, []).append(place)
        unknown += [] if known else [place]
    sizes = [f"{both} ({', '.join(places)})" for both, places in found.items()]
    sizes += [f"not recorded of {', '.join(unknown)}"] if unknown else []
    return [f"examples to choose with and to test on: {'; '.join(sizes)}"] if found else []


def settings_note(seeds: Collection[int], scores: str = "scores") -> str:
    named = ", ".join(map(str, seeds))
    return f"{scores}: mean (±sample standard deviation) of test scores, x100, over seeds {named}"


def seeds_of(scope: Scope) -> list[int]:
    """Of the runs, and those that were asked for: a score without one of them says so."""
    return sorted({*scope.seeds, *(run["seed"] for run in (*scope.done, *scope.failed))})


def metrics_note(tasks: Collection[str]) -> str:
    named = {metric: [task for task in tasks if TASKS[task].metric == metric] for metric in MEAN_OF}
    special = [f"{', '.join(of)}: {MEAN_OF[metric]}" for metric, of in named.items() if of]
    return "; ".join(["metric: accuracy", *special])


def variants_note(runs: Iterable[Run], chosen: str = "not as in the paper: ") -> str:
    """Backbones, what prompts the runs have, and what was chosen of their settings, behind the words ``chosen``."""
    runs = list(runs)
    prompted = list(filter(is_prompted, runs))
    parts = [f"{distinct(runs, architecture)} with backbone {of_rows(runs, backbone_label)}"]
    for kind, group in grouped(prompted, lambda run: kind_of(run["task"])).items():
        parts.append(f"prompt position of {kind} {distinct(group, itemgetter('position'))}")
    if prompted:
        parts.append(f"prompt length {distinct(prompted, itemgetter('prompt_length'))}")
    supplemented = [run for run in runs if run["supplementary_position"] is not None]
    for row, group in grouped(supplemented, lambda run: run["row"]).items():
        places = distinct(group, itemgetter("supplementary_position"))
        parts.append(f"{row} after supplementary training, position {places}")
    settings = [_setting(runs, key) for key in CHOSEN if any(run.get(key) is not None for run in runs)]
    return "; ".join([*parts, *([chosen + "; ".join(settings)] if settings else [])])


def _setting(runs: list[Run], key: str) -> str:
    """``max update 120, 200``, and the rows where only some have it, with the task where not on all."""
    given = [run for run in runs if run.get(key) is not None]
    others = [run for run in runs if run.get(key) is None]
    rows = {run["row"] for run in others}
    where = dict.fromkeys(cell_label(run) if run["row"] in rows else run["row"] for run in given)
    values = f"{key.replace('_', ' ')} {distinct(given, itemgetter(key))}"
    return f"{values} ({', '.join(where)})" if others else values


def options_note(runs: Iterable[Run]) -> list[str]:
    """What fairseq-train was given besides the paper's settings: to all runs, to those of a row, of a row on a task,
    and of a K or prompt of these."""
    runs = list(runs)
    shared = _given_to_all(runs)
    found = [("", shared)]
    for row, of_row in grouped(runs, itemgetter("row")).items():
        by_row = _given_to_all(of_row)
        found.append((row, by_row - shared))
        for task, of_task in grouped(of_row, itemgetter("task")).items():
            by_task = _given_to_all(of_task)
            found.append((f"{row} on {task}", by_task - by_row))
            for group in grouped(of_task, itemgetter("k", *PROMPT)).values():
                rest = {option for option in _given_to_all(group) - by_task if not option.startswith(LENGTH)}
                found.append((cell_label(group[0]) + places_of(group[0], of_task), rest))
    where: dict[tuple[str, ...], list[str]] = {}
    for name, options in found:
        if options:
            where.setdefault(tuple(sorted(options)), []).append(name)
    parts = [f"{', '.join(names)}: {' '.join(options)}".removeprefix(": ") for options, names in where.items()]
    return [f"options besides the paper's: {'; '.join(parts)}"] if parts else []


def _given_to_all(runs: Iterable[Run]) -> set[str]:
    return set.intersection(
        *({f"{name} {value}".strip() for name, value in asked_options(run).items()} for run in runs)
    )


def data_note(runs: Iterable[Run], name: Callable[[Run], str] = itemgetter("task")) -> list[str]:
    """Which runs on a task are of which data, where it is not the same for all: their examples are others then.

    Args:
        name: of a run's task, as the table has it.
    """
    parts, certain = [], True
    for of_task in grouped(runs, itemgetter("task")).values():
        versions = versions_of_data(of_task)
        for fingerprints, version in versions if len(versions) > 1 else ():
            known = [run[key] for run in version for key in (TESTED, FINGERPRINTS[0]) if run.get(key) in fingerprints]
            certain = certain and bool(known)
            found = known[0] if known else version[0][FINGERPRINTS[1]]
            parts.append(f"{found[:8]} of {rows_by_place(_places_of_rows(version, of_task, name))}")
    said = "not the same data for all runs of a task"
    if not certain:
        said = f"perhaps {said}, or not the same word vectors beside it, which older fingerprints cover"
    return [f"{said}: {'; '.join(parts)}"] if parts else []


def versions_note(runs: Iterable[Run]) -> list[str]:
    """Of packages that decide numbers, of hardware and of this repository, where runs of a table are of several."""
    runs = list(runs)
    known = [run["versions"] for run in runs if run.get("versions")]
    found = {name: dict.fromkeys(str(each[name]) for each in known if each.get(name)) for name in CODE}
    several = [f"{name} {', '.join(sorted(versions))}" for name, versions in found.items() if len(versions) > 1]
    notes = [f"runs of several versions of {'; '.join(several)}"] if several else []
    hardware = sorted({hardware_of(run) or NOT_RECORDED for run in runs})
    notes += [f"runs on {' and on '.join(hardware)}"] if len(hardware) > 1 else []
    return notes + _commits_note([run["git"] for run in runs if run.get("git")])


def _commits_note(revisions: Collection[str]) -> list[str]:
    """``revisions``: of the runs, with + where files were changed that a commit has."""
    commits = {revision.rstrip("+") for revision in revisions}
    changed = sum(revision.endswith("+") for revision in revisions)
    parts = [f"runs of {len(commits)} commits of this repository"] if len(commits) > 1 else []
    parts += [f"{changed} of {len(revisions)} runs with changes that were not committed"] if changed else []
    return ["; ".join(parts)] if parts else []


def _places_of_rows(some: Iterable[Run], runs: Collection[Run], name: Callable[[Run], str]) -> dict[str, list[str]]:
    """Task -> rows, with K and prompt where others of ``runs`` are of the same row."""
    found: dict[str, list[str]] = {}
    for (row, task), of_row in grouped(some, lambda run: (run["row"], name(run))).items():
        others = [run for run in runs if (run["row"], name(run)) == (row, task)]
        apart = len(others) > len(of_row)
        for run in of_row:
            place = task_label(task, run["k"]) + places_of(run, others) if apart else task
            rows = found.setdefault(place, [])
            rows += [row] if row not in rows else []
    return found


def incomplete(rows: Mapping[tuple[int | None, str], RowScores], seeds: Collection[int]) -> list[str]:
    """A note that says which seeds are missing where, if any; rows by K and name."""
    lacking: dict[str, list[str]] = {}
    for (k, name), row in rows.items():
        for task, score in row.items():
            if absent := sorted(set(seeds).difference(score.seeds)):
                without = f"{task_label(task, k)} without {', '.join(map(str, absent))}"
                lacking.setdefault(without, []).append(name)
    return [f"(n=...): fewer seeds; {rows_by_place(lacking)}"] if lacking else []


def fewer_seeds(scope: Scope) -> list[str]:
    """``incomplete`` for figures, whose numbers are not marked.

    The prompt is named too, where another prompt of the same row and task lacks other seeds.
    """
    seeds = set(seeds_of(scope))
    lacking: dict[str, list[str]] = {}
    for (row, task, k), runs in grouped(scope.done, itemgetter("row", "task", "k")).items():
        scores = [by_task[task] for by_task in rows_of(runs, itemgetter(*PROMPT), scope.failed).values() if by_task]
        without = [", ".join(map(str, sorted(seeds.difference(score.seeds)))) for score in scores]
        differ = len(set(without)) > 1
        for score, absent in zip(scores if differ else scores[:1], without):
            if absent:
                where = task_label(task, k) + places_of(score.runs[0], runs if differ else [])
                lacking.setdefault(f"{where} without {absent}", []).append(row)
    return [f"fewer seeds: {rows_by_place(lacking)}"] if lacking else []


def failures(runs: Collection[Run]) -> list[str]:
    """Notes that name each run that would fail again, and count the others by row and task, if there are any."""
    hopeless = list(filter(is_hopeless, runs))
    others = [run for run in runs if not is_hopeless(run)]
    counts = Counter(cell_label(run) for run in others)
    named = "; ".join(f"{name} {count}" for name, count in counts.items())
    return [*_hopeless(hopeless), *([f"failed runs, left out: {len(others)} ({named})"] if others else [])]


def _hopeless(runs: Iterable[Run]) -> list[str]:
    by_rate = grouped(runs, lambda run: (run["reason"], cell_label(run), run["lr"]))
    named = "; ".join(
        f"{where}, lr {lr:g}, seed {distinct(group, itemgetter('seed'))}: {reason}"
        for (reason, where, lr), group in by_rate.items()
    )
    return [f"learning rates that are out, and missing where no other is left: {named}"] if named else []
