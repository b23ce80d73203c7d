"""The lines under a table: how its numbers came about, what is missing, what failed; most of them for ``--notes``."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from functools import partial
from operator import itemgetter
from typing import Any

from ..run.experiment import ARROW
from .choice import CHOSEN, LENGTH, TESTED, RowScores, Scope, Score
from .records import (
    KNOWN,
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

ScoresOfK = Mapping[Any, RowScores]  # by (K, row, ...)
FINGERPRINTS = ("read_sha256", "data_sha256")  # of the data that a run read; of these and all word vectors there
MEAN_OF = {
    "acc_and_f1": "mean of accuracy and F1",
    "pearson_and_spearman": "mean of Pearson's and Spearman's correlation",
    "mcc": "Matthews correlation",
    "acc_and_macro_f1": "mean of accuracy and macro F1",
    "choice_accuracy": "accuracy of the chosen answers",
    "f1a_and_em": "mean of F1 over all answers and of questions without a mistake",
    "choice_f1_and_em": "mean of F1 and exact match of the chosen answers",
}
DRAWN = "a development set drawn with the training examples"
AS_THE_AUTHORS = (
    "as in the authors' scripts: a checkpoint by its accuracy, of STS-B by its loss, of tasks that they have not by "
    "the metric that is reported"
)
CHOSEN_ON = {
    ("full", "clean"): "examples held out of the training set",
    ("full", "paper"): f"the reported split itself, {AS_THE_AUTHORS}",
    ("few-shot", "clean"): DRAWN,
    ("few-shot", "paper"): f"{DRAWN}, {AS_THE_AUTHORS}",
}


def distinct(runs: Iterable[Run], value: Callable[[Run], Any]) -> str:
    return ", ".join(map(str, sorted({value(run) for run in runs})))


def place_of(run: Run, runs: Iterable[Run]) -> str:
    """Return task, K, and the parts of the prompt in which others of ``runs`` with the same row and task differ."""
    others = [other for other in runs if (other["row"], other["task"]) == (run["row"], run["task"])]
    differing = [(key.replace("_", " "), run[key]) for key in PROMPT if len({other[key] for other in others}) > 1]
    named = (f"no {name}" if value is None else f"{name} {value}" for name, value in differing)
    return ", ".join([task_label(run["task"], run["k"]), *named])


def by_row(runs: Iterable[Run], value: Callable[[list[Run]], str]) -> list[tuple[str, str, str]]:
    """Return (value, place, row) of the runs in each cell; a row with one value has it at the place "", everywhere."""
    found = []
    for row, of_row in grouped(runs, itemgetter("row")).items():
        values = {place: value(cell) for place, cell in grouped(of_row, partial(place_of, runs=of_row)).items()}
        everywhere = len(set(values.values())) == 1
        found += [(text, "" if everywhere else place, row) for place, text in values.items()]
    return found


def where(found: Iterable[tuple[Hashable, str, str]]) -> dict[Any, str]:
    """Return value -> ``a, b on CR; c on MR`` of (value, place, row)."""
    values: dict[Any, dict[str, dict[str, None]]] = {}
    for value, place, row in found:
        values.setdefault(value, {}).setdefault(place, {})[row] = None
    return {
        value: "; ".join(", ".join(rows) + (place and f" on {place}") for place, rows in places.items())
        for value, places in values.items()
    }


def usual_first(found: Collection[tuple[str, str, str]]) -> str:
    """Return the most frequent value, and each other one with its places."""
    usual = Counter(value for value, *_ in found).most_common(1)[0][0]
    return "; ".join([usual, *(f"{value} ({places})" for value, places in where(found).items() if value != usual)])


def cells_of(rows: ScoresOfK) -> list[tuple[str, str, Score]]:
    """Return (row, place, score)."""
    scores = [score for of_row in rows.values() for score in of_row.values()]
    first = [score.runs[0] for score in scores]
    return [(run["row"], place_of(run, first), score) for run, score in zip(first, scores)]


def in_one_line(warnings: Iterable[str]) -> list[str]:
    """Return warnings as the last of the few lines under a table."""
    return list(filter(None, [". ".join(warnings)]))


def settings_note(scope: Scope, scores: str = "scores") -> str:
    """Return the first line under a table, which begins with ``scores``."""
    seeds = ", ".join(map(str, scope.seeds))
    return f"{scores}: mean (±sample standard deviation) of test scores, x100, over seeds {seeds}"


def score_note(scope: Scope, scores: str = "ours") -> str:
    return f"{settings_note(scope, scores)}, at the learning rate with the best mean dev score of each row and task"


def protocol(scope: Scope, tasks: Collection[str], chosen: str = "not as in the paper: ") -> list[str]:
    """Return rates, selection, metrics of ``tasks``, backbones, prompts, settings, options and hardware."""
    runs, hardware = scope.done, sorted(set(map(hardware_of, scope.done)))
    tried = by_row(runs, lambda cell: ", ".join(f"{lr:g}" for lr in sorted({run["lr"] for run in cell})))
    return [
        f"learning rates tried: {usual_first(tried)}",
        *rates_compared(scope.rows("k", "row", *PROMPT)),
        *selection_notes(runs),
        *metrics_note(tasks),
        variants_note(runs, chosen),
        *options_note(runs),
        *([f"runs on {' and on '.join(hardware)}"] if len(hardware) > 1 else []),
    ]


def selection_notes(runs: Iterable[Run]) -> list[str]:
    """Return the examples that chose learning rate and checkpoint, for each setting."""
    notes = []
    for (setting, selection), group in grouped(runs, itemgetter("setting", "selection")).items():
        ks = distinct((run for run in group if run["k"] is not None), itemgetter("k"))
        chosen_on = f"learning rate and checkpoint chosen on {CHOSEN_ON[setting, selection]}"
        notes.append(f"setting {setting}{ks and f' with K = {ks}'}; selection {selection}: {chosen_on}")
    return notes


def metrics_note(tasks: Collection[str]) -> list[str]:
    named = {mean: [task for task in tasks if KNOWN[task].metric == metric] for metric, mean in MEAN_OF.items()}
    special = [f"{', '.join(of)}: {mean}" for mean, of in named.items() if of]
    return ["; ".join(["metric: accuracy", *special])] if tasks else []


def variants_note(runs: Collection[Run], chosen: str = "") -> str:
    """Return backbones, prompts, and behind ``chosen`` the settings that differ from the paper's."""
    backbones = {name: dict.fromkeys(run["row"] for run in of) for name, of in grouped(runs, backbone_label).items()}
    several = len(backbones) > 1
    named = [f"{name} ({', '.join(backbones[name])})" if several else name for name in sorted(backbones)]
    parts = [f"{distinct(runs, architecture)} with backbone {', '.join(named)}"]
    prompted = list(filter(is_prompted, runs))
    for kind, group in grouped(prompted, lambda run: kind_of(run["task"])).items():
        parts.append(f"prompt position of {kind} {distinct(group, itemgetter('position'))}")
    if prompted:
        parts.append(f"prompt length {distinct(prompted, itemgetter('prompt_length'))}")
    supplemented = [run for run in runs if run["supplementary_position"] is not None]
    for row, group in grouped(supplemented, itemgetter("row")).items():
        places = distinct(group, itemgetter("supplementary_position"))
        parts.append(f"{row} after supplementary training, position {places}")
    settings = []
    for key in CHOSEN:
        given = [run for run in runs if run.get(key) is not None]
        # Where only some runs have a setting, their rows are named, with the task where not on all.
        rows = {run["row"] for run in runs if run.get(key) is None}
        shown = dict.fromkeys(cell_label(run) if run["row"] in rows else run["row"] for run in given)
        values = f"{key.replace('_', ' ')} {distinct(given, itemgetter(key))}"
        settings += [f"{values} ({', '.join(shown)})" if rows else values] if given else []
    return "; ".join([*parts, *([chosen + "; ".join(settings)] if settings else [])])


def options_note(runs: Collection[Run]) -> list[str]:
    """Return the options of fairseq-train besides the paper's settings: those of all runs, then those of some."""

    def shared_by(cell: Iterable[Run]) -> set[str]:
        of_runs = ({f"{name} {value}".strip() for name, value in asked_options(run).items()} for run in cell)
        return set.intersection(*of_runs)

    def others(cell: list[Run]) -> str:  # the length of prompts stands beside their position
        return " ".join(sorted(each for each in shared_by(cell) - shared if not each.startswith(LENGTH)))

    shared = shared_by(runs)
    parts = [" ".join(sorted(shared))] if shared else []
    parts += [f"{places}: {options}" for options, places in where(by_row(runs, others)).items() if options]
    return [f"options besides the paper's: {'; '.join(parts)}"] if parts else []


def rates_compared(rows: ScoresOfK) -> list[str]:
    """Return the seeds on which rates without all seeds of the chosen one were compared with it."""
    found = [
        (f"seeds {', '.join(map(str, shared))}" if shared else "no seed", place, row)
        for row, place, score in cells_of(rows)
        for shared in map(score.compared_on, score.others)
    ]
    return [f"learning rates without all of these seeds were compared on {usual_first(found)}"] if found else []


def warnings(scope: Scope, rows: ScoresOfK, fewer: str = "(n=...): fewer seeds;") -> list[str]:
    """Return what limits the comparison of two numbers of a table; ``fewer`` begins the line about seeds."""
    lacking = []
    for row, place, score in cells_of(rows):
        absent = ", ".join(map(str, sorted(set(scope.seeds).difference(score.seeds))))
        lacking += [(None, f"{place} without {absent}", row)] if absent else []
    of_seeds = [f"{fewer} {where(lacking)[None]}"] if lacking else []
    return [*of_seeds, *failures(scope.failed), *data_note(scope.done)]


def data_note(runs: Iterable[Run]) -> list[str]:
    """Return which runs are of which data, for tasks whose runs are not all of the same."""
    parts, certain = [], True
    for of_task in grouped(runs, lambda run: run["task"].split(ARROW)[-1]).values():
        versions = versions_of_data(of_task)
        for fingerprints, version in versions if len(versions) > 1 else ():
            known = [run[key] for run in version for key in (TESTED, FINGERPRINTS[0]) if run.get(key) in fingerprints]
            certain = certain and bool(known)
            found = known[0] if known else version[0][FINGERPRINTS[1]]
            places = where((None, place_of(run, of_task), run["row"]) for run in version)[None]
            parts.append(f"{found[:8]} of {places}")
    said = "not the same data for all runs of a task"
    if not certain:
        said = f"perhaps {said}, or not the same word vectors beside it, which older fingerprints cover"
    return [f"{said}: {'; '.join(parts)}"] if parts else []


def versions_of_data(runs: Iterable[Run]) -> list[tuple[set[str], list[Run]]]:
    """Return (fingerprints, runs) for each version of a task's data; runs of a version are linked by fingerprints."""
    versions: list[tuple[set[str], list[Run]]] = []
    for run in runs:
        names = [TESTED] if TESTED in run else FINGERPRINTS
        known, members = {run[name] for name in names if run.get(name)}, [run]
        for version in [version for version in versions if version[0] & known]:
            versions.remove(version)
            known, members = known | version[0], [*version[1], *members]
        versions += [(known, members)] if known else []
    return versions


def failures(runs: Collection[Run]) -> list[str]:
    """Return a line that names the runs which would fail again, and one that counts the others by row and task."""
    by_rate = grouped(filter(is_hopeless, runs), lambda run: (run["reason"], cell_label(run), run["lr"]))
    hopeless = [
        f"{place}, lr {lr:g}, seed {distinct(group, itemgetter('seed'))}: {reason}"
        for (reason, place, lr), group in by_rate.items()
    ]
    counts = Counter(cell_label(run) for run in runs if not is_hopeless(run))
    named = "; ".join(f"{name} {count}" for name, count in counts.items())
    out = [f"learning rates that are out, and missing where no other is left: {'; '.join(hopeless)}"]
    return [*(out if hopeless else []), *([f"failed runs, left out: {counts.total()} ({named})"] if counts else [])]
