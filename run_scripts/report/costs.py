"""The tables of costs: parameters (Table 2), methods side by side, seconds of other papers."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from operator import itemgetter
from statistics import mean, median
from typing import Any

from preprocess.errors import InputError

from .choice import Choice, asked_columns, only_architecture, settle, take_runs
from .notes import in_one_line, protocol, score_note, variants_note, warnings
from .paper import PAPER_ARCH, paper
from .records import KNOWN, Results, Run, grouped, hardware_of, has_finished, task_label
from .render import MISSING, NOTHING, Table
from .tables import seeds_text


def trainable_counts(results: Results, choice: Choice) -> tuple[str, list[str], dict[str, tuple[int | None, str]]]:
    """Return the architecture, the rows of the paper and of runs without Tables 6 and 7, row -> (count, its source)."""
    finished = [run for run in results.runs if has_finished(run) and not paper().is_ablation(run["row"])]
    runs = list(filter(choice.accepts, finished))
    arch = only_architecture(runs, results) or PAPER_ARCH
    by_row = grouped(settle(runs, choice, results, ["prompt_length"]), itemgetter("row"))
    of_runs = {row: only_count(results, row, of) for row, of in by_row.items()}
    # An old record of a whole backbone may have 0, as its method has no parameters.
    counted = {} if all(map(of_runs.get, paper().counts)) else _counted(arch)
    found: dict[str, tuple[int | None, str]] = {}
    rows = list(dict.fromkeys([*paper().counts, *of_runs]))
    for row in (*rows, *counted):
        count = of_runs.get(row) or counted.get(row, of_runs.get(row))
        found[row] = count, NOTHING if count is None else "runs" if count == of_runs.get(row) else "counted"
    return arch, rows, found


def only_count(results: Results, row: str, runs: Iterable[Run]) -> int:
    found = sorted({run["trainable"] for run in runs})
    if len(found) > 1:
        counts = " and ".join(map(str, found))
        raise InputError(f"{results.place}: runs of {row} train {counts} parameters: name them apart")
    return found[0]


def _counted(arch: str) -> dict[str, int]:
    from fairseq_idpg import count, plugin  # noqa: F401  torch and fairseq, which other tables do without
    from fairseq_idpg.models.config import SIZES

    return {row.preset: row.own or row.of_backbone for row in count.counts(arch)} if arch in SIZES else {}


def count_table(results: Results, choice: Choice) -> Table:
    """Return our count and the paper's for each row, and how much larger ours is."""
    arch, rows, counts = trainable_counts(results, choice)
    groups = []
    for row in choice.pick(rows):
        (ours, source), theirs = counts[row], paper().printed_count(row)
        apart = ours / theirs["parameters"] - 1 if theirs and ours is not None and arch == PAPER_ARCH else None
        cells = [MISSING if ours is None else f"{ours:,}", source, theirs["printed"] if theirs else NOTHING]
        groups.append([[row, *cells, NOTHING if apart is None else f"{apart:+.1%}"]])
    notes = [
        f"architecture {arch}; classification heads are not counted",
        "source: runs, or counted by building the modules where no run says",
        "paper: RoBERTa-large, digits cut; its K is 1,024 and its M 1,024 K, but a million for fine-tuning",
    ]
    return Table("Table 2: trainable parameters", 1, ["method", "ours", "source", "paper", "difference"], groups, notes)


COST_HEADER = ["trainable", "s/update", "peak MiB"]
COSTS = (
    "trainable: parameters of the method, or of what it trains of the backbone, without the classification head",
    "s/update: of fairseq's clock, without start-up, loading, validation and saving, in whole seconds for each 100 "
    "updates; median of the runs; of the machine as it was, with whatever else ran there",
    "peak MiB: the most that a run held, of the GPU where there was one, else of the process with all that it loads",
)


def methods_table(results: Results, choice: Choice) -> Table:
    """Return a line for each row with runs, in the order of the presets; a single task also has its learning rate."""
    if not choice.tasks:
        of_any = replace(choice, tasks=tuple(KNOWN))
        done = [run for run in results.runs if has_finished(run) and run["k"] == choice.k and of_any.accepts(run)]
        choice = replace(choice, tasks=tuple(filter({run["task"] for run in done}.__contains__, KNOWN)))
    scope = take_runs(results, choice)
    rows = {name: row for (_, name), row in scope.rows("k", "row").items()}
    from fairseq_idpg import plugin  # noqa: F401
    from fairseq_idpg.methods.registry import PRESETS

    presets = list(PRESETS)  # methods that are joined by + come last
    of_row = {run["row"]: run.get("method") or run["row"] for run in scope.done}
    places = {row: presets.index(of) if of in presets else len(presets) for row, of in of_row.items()}
    names = sorted(choice.pick(rows), key=places.__getitem__)
    shown = {name: [rows[name].get(task) for task in choice.tasks] for name in names}
    runs = {name: [run for score in scores if score for run in score.runs] for name, scores in shown.items()}
    timed, left_out = on_one_hardware(runs)
    groups = []
    for name, scores in shown.items():
        cells = [seeds_text(score, scope.seeds) if score else MISSING for score in scores]
        if len(scores) == 1:
            cells.append(f"{scores[0].lr:g}" if scores[0] else MISSING)
        keys = ("seconds_per_update", "peak_mib")
        seconds, peaks = ([run[key] for run in timed[name] if run.get(key) is not None] for key in keys)
        costs = [f"{median(seconds):.3f}" if seconds else NOTHING, f"{max(peaks):,.0f}" if peaks else NOTHING]
        known = [f"{only_count(results, name, runs[name]):,}", *costs] if runs[name] else [MISSING] * len(COST_HEADER)
        groups.append([[name, *cells, *known]])
    labels = [task_label(task, choice.k) for task in choice.tasks]
    header = ["method", *(["test", "lr"] if len(labels) == 1 else labels), *COST_HEADER]
    warned = in_one_line([*left_out, *warnings(scope, scope.rows("k", "row"))])
    more = [*COSTS[1:], *protocol(scope, choice.tasks)]
    notes = [score_note(scope, "test"), COSTS[0], *warned]
    return Table(f"Methods on {', '.join(labels)}", 1, header, groups, notes, more)


def on_one_hardware(rows: Mapping[str, Collection[Run]]) -> tuple[dict[str, list[Run]], list[str]]:
    """Return each row's runs on the hardware of most rows (of several, with most runs), and a note on the others."""
    counts = Counter(hardware_of(run) for runs in rows.values() for run in runs)
    of_rows = Counter(kind for runs in rows.values() for kind in {hardware_of(run) for run in runs})
    taken = max(counts, key=lambda kind: (of_rows[kind], counts[kind], kind), default="")
    others = sorted(kind for kind in counts if kind != taken)
    left_out = f"those on {' and on '.join(others)} left out of them"
    note = f"seconds and memory: of the {counts[taken]} runs on {taken} alone, {left_out}"
    of_taken = {name: [run for run in runs if hardware_of(run) == taken] for name, runs in rows.items()}
    return of_taken, [note] if others else []


OURS = {
    "training": "training: seconds of an update (fairseq's clock) by the batch size, which --max-tokens may cut short",
    "prediction": "prediction: seconds for an example of the reported split, in batches of 64, with loading of batches "
    "and, where an earlier pass has kept it, of M(x)",
    "convergence": "seconds of an update (fairseq's clock) times the updates before the best checkpoint",
}
OTHER_MACHINES = "seconds of different machines cannot be compared, those of two rows on one machine can"


def seconds_table(spec: dict[str, Any], results: Results, choice: Choice) -> Table:
    """Return seconds of the runs at the chosen learning rates, and the paper's."""
    columns = asked_columns(spec["columns"], choice)
    kinds = [kind for kind in OURS if kind in spec]
    printed = spec[kinds[0]]
    scope = take_runs(results, replace(choice, tasks=columns), (None,), printed=printed)
    rows = scope.rows("row")
    runs = {name: [run for score in row.values() for run in score.runs] for name, row in rows.items()}
    timed, left_out = on_one_hardware(runs)
    groups = []
    for name in choice.pick([*printed, *rows]) if choice.rows else printed:
        for kind in kinds:
            found = [(run["task"], seconds_of(run, kind)) for run in timed.get(name, ())]
            known = [[value for task, value in found if task == column and value is not None] for column in columns]
            lines = [[name, kind, "ours", *(in_seconds(mean(of) if of else None) for of in known)]]
            if theirs := spec[kind].get(name):
                lines.append([name, kind, "paper", *(in_seconds(theirs.get(column)) for column in columns)])
            groups.append(lines)
    how = f"ours: means over seeds {', '.join(map(str, scope.seeds))} at the chosen learning rate"
    more = [*(OURS[kind] for kind in kinds), spec["said"], variants_note(scope.done)]
    header, notes = ["method", "of", "values", *columns], [how, OTHER_MACHINES, *left_out]
    return Table(spec["heading"], 3, header, groups, notes, more)


def seconds_of(run: Run, kind: str) -> float | None:
    """Return the seconds of one of ``OURS``; None where a record lacks them."""
    if kind == "prediction":
        return run.get("seconds_per_prediction")
    seconds, number = run.get("seconds_per_update"), run.get("batch_size" if kind == "training" else "best_update")
    if seconds is None or number is None:
        return None
    return seconds / number if kind == "training" else seconds * number


def in_seconds(value: float | None) -> str:
    return MISSING if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.3f}"


def parameter_table(spec: dict[str, Any], results: Results, choice: Choice) -> Table:
    """Return parameters counted by building the modules, and the paper's, for each architecture."""
    from fairseq_idpg import count

    groups = []
    rows: dict[str, dict[str, Any]] = spec["counts"]
    for name in choice.pick(rows):
        row, lines = rows[name], []
        options = {option.replace("-", "_"): value for option, value in row.get("options", {}).items()}
        for arch in (key for key in row if key.startswith("roberta_idpg")):
            found = count.count_preset(arch, row["method"], **options)
            ours, theirs = found.own or found.of_backbone, row[arch]
            lines.append([name, arch, f"{ours:,}", f"{theirs:,}", f"{ours / theirs - 1:+.1%}"])
        groups.append(lines)
    notes = ["ours: counted by building the modules; classification heads are not counted"]
    return Table(spec["heading"], 2, ["method", "architecture", "ours", "paper", "difference"], groups, notes)
