"""What is said under a table: how its numbers came about, what is missing, what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import itemgetter

from preprocess.tasks import TASKS

from .comparable import CHOSEN, FINGERPRINTS, LENGTH, TESTED, versions_of_data
from .phrases import distinct, of_rows, places_of, rows_by_place
from .rates import rates_notes, rates_tried
from .record_schema import PROMPT
from .runs import (
    NOT_RECORDED,
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
from .scope import Scope
from .scores import RowScores, rows_of

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
