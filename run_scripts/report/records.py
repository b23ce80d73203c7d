"""Runs as ``results.jsonl`` holds them, checked as they are read, and what tables ask of a run."""

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from preprocess.errors import InputError
from preprocess.split_scores import METRICS
from preprocess.tasks import TASKS, own_task

from ..run.experiment import ARROW, METRICS_OF_OLD, SELECTIONS
from ..run.records import REASONS, read_records, results_file, unpacked_classes

Run = dict[str, Any]  # a line of results.jsonl
AnyRun = TypeVar("AnyRun")
# The tasks of the records that were read: only these have facts about own data.
KNOWN = dict(TASKS)
Key = TypeVar("Key", bound=Hashable)
SINGLE, PAIRS = "single sentences", "pairs"  # kinds of tasks
POSITIONS = {SINGLE: (0, 1, 4), PAIRS: (0, 1, 2, 3, 4)}  # Figure 6
PROMPT = ("position", "supplementary_position", "prompt_length")
SPLITS = ("dev", "test")
IDENTITY = ("status", "row", "task", "setting", "k", "selection", "lr", "seed")  # known of every run
OUTCOME = (*SPLITS, "metric", "trainable", "backbone", *PROMPT)  # and of one that has finished
NULLABLE = ("k", *PROMPT)


def is_number(value: Any, least: float = 0, most: float = sys.float_info.max, kinds: Any = (int, float)) -> bool:
    """Return whether it is a number in this range, which NaN never is."""
    return isinstance(value, kinds) and not isinstance(value, bool) and least <= value <= most


is_count = partial(is_number, kinds=int)
is_score = partial(is_number, least=-100, most=100)
CHECKS: dict[str, Callable[[Any], bool]] = {  # of the values that are not null; an exception counts as False
    "status": ("done", "failed").__contains__,
    "row": lambda value: value != "" and value.isprintable(),
    "setting": ("full", "few-shot").__contains__,
    "selection": SELECTIONS.__contains__,
    "lr": partial(is_number, least=1e-300, most=1e300),  # one that is too high diverges, which is a result
    # A failed run may know only the path of its backbone, and not its fingerprint.
    "backbone": lambda value: isinstance(value, str) or all(isinstance(value[key], str) for key in ("path", "sha256")),
    "scores": lambda value: all(is_score(score) for of_split in value.values() for score in of_split.values()),
    "dev_curve": lambda value: all(is_score(score) for _, score in value),
    "transfer": lambda value: all(
        found["metric"] == TASKS[task].metric and all(map(is_score, (found["test"], *found["scores"].values())))
        for task, found in value.items()
    ),
    "test_classes": lambda value: min(map(len, unpacked_classes(value))) > 0,
    "task": lambda value: value != "" and value.isprintable() and ARROW not in value,
    "source_task": [*TASKS].__contains__,
    "pairs": (True, False).__contains__,
    "metric": (*METRICS_OF_OLD, *METRICS).__contains__,
    **dict.fromkeys(SPLITS, is_score),
    **dict.fromkeys(("k", "seed", "trainable", *PROMPT, "best_update", "protocol"), is_count),
    **dict.fromkeys(("dev_examples", "batch_size", "max_epoch", "max_update"), is_count),
    **dict.fromkeys(("seconds_per_update", "seconds_per_prediction", "peak_mib", "warm_up"), is_number),
}


def damaged_key(run: Run) -> str | None:
    """Return the first key that lacks a value, or has one that would make a wrong number; None if all is well."""
    done = run.get("status") == "done"
    for key in (*IDENTITY, *(OUTCOME if done else ())):
        if key not in run or (run[key] is None and key not in NULLABLE):
            return key
    for key, accepts in CHECKS.items():
        try:
            if run.get(key) is not None and not accepts(run[key]):
                return key
        except (AttributeError, LookupError, TypeError, ValueError):
            return key
    # Own data is known only by its records, so a task's first record tells what it is.
    if run.get("pairs") is not None and run.get("metric") is not None:
        KNOWN.setdefault(run["task"], own_task(run["task"], run["pairs"], run["metric"]))
    known, scores = KNOWN.get(run["task"]), run.get("scores") or {}
    metric = None if known is None else known.metric
    wrong = {
        "task": known is None,
        "k": (run["k"] is None) != (run["setting"] == "full"),
        "metric": done and run["metric"] != metric,
        # Two backbones without a fingerprint would pass for the same.
        "backbone": done and (isinstance(run["backbone"], str) or not run["backbone"]["sha256"]),
        # One table reads the score, another table those of its parts.
        **{split: done and scores.get(split, {}).get(metric, run[split]) != run[split] for split in SPLITS},
    }
    return next((key for key, is_wrong in wrong.items() if is_wrong), None)


@dataclass(frozen=True)
class Results:
    """The runs of a folder, or of a file as ``run_scripts.publish`` writes them."""

    place: Path  # as the command line names it
    runs: tuple[Run, ...] = ()
    continued: tuple[Run, ...] = ()  # go on from runs of another task; only in tables of transfer
    # Trainings of a backbone for other runs; in the overview alone. Their checkpoint was chosen on the split that they
    # report, whatever their selection.
    supplementary: tuple[Run, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder from which the paths of predictions lead."""
        return results_file(self.place).parent


def file_within(folder: Path, path: Path) -> bool:
    """Return whether a file is there, and in the folder: a record may name any place of the machine."""
    return path.is_file() and folder.resolve() in path.resolve().parents


def read_results(place: Path) -> Results:
    """Return every run of ``place/results.jsonl``, or of the file itself; raise InputError for a damaged record."""
    path = results_file(place)
    for own in KNOWN.keys() - TASKS.keys():  # another place may have other data of the name
        del KNOWN[own]
    kinds: dict[str, list[Run]] = defaultdict(list)
    for run in read_records(path):
        if key := damaged_key(run):
            problem = f"{key} {str(run[key])[:80]!r}" if key in run else f"no {key}"
            raise InputError(f"{path}: run {run['run']} has a damaged record, {problem}: repeat it or remove its line")
        backbone = run.get("backbone") or ""  # a run that failed may know only the path, or neither
        known = backbone if isinstance(backbone, dict) else {"path": backbone, "sha256": ""}
        kind = "continued" if run.get("source_task") else "supplementary" if run.get("supplementary") else "runs"
        kinds[kind].append({**run, "backbone": known})
    if not kinds:
        raise InputError(f"{path} holds no runs: name the folder of a sweep that has run")
    return Results(place, **{kind: tuple(runs) for kind, runs in kinds.items()})


def grouped(runs: Iterable[AnyRun], key: Callable[[AnyRun], Key]) -> dict[Key, list[AnyRun]]:
    """Return key -> runs or experiments with it, in the order of their first ones."""
    groups: dict[Key, list[AnyRun]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return dict(groups)


def has_finished(run: Run) -> bool:
    return run["status"] == "done"


def is_hopeless(run: Run) -> bool:
    """Return whether a run has failed, and would again: it has diverged, or had too little memory."""
    return not has_finished(run) and run.get("reason") in REASONS


def is_prompted(run: Run) -> bool:
    """Return whether there are prompt rows in the run's input; a failed run may not say."""
    return run.get("prompt_length") is not None


def hardware_of(run: Run) -> str:
    """Return the names of the GPUs that made a run, or CPU; older records may not say."""
    torch = (run.get("versions") or {}).get("torch") or ""
    return run.get("hardware") or ("CPU" if torch.endswith("+cpu") else "hardware that is not on record")


def asked_options(run: Run) -> dict[str, str]:
    """Return option -> value of what fairseq-train was given besides the paper's settings; old records do not say."""
    words = re.split(r" (?=--[a-z])", " ".join(run.get("given_options") or ()))
    found = (re.match(r"(--[a-z][^ =]*)[ =]?(.*)", word, re.DOTALL) for word in words)
    return {match[1]: match[2] for match in found if match}


def part_of(run: Run, split: str, metric: str) -> float | None:
    """Return a score by another metric than the task's own; None where the record has none."""
    return ((run.get("scores") or {}).get(split) or {}).get(metric)


def kind_of(task: str) -> str:
    """Return the kind of a task, or of two with an arrow between, which share it."""
    return PAIRS if KNOWN[task.split(ARROW)[-1]].pairs else SINGLE


def task_label(task: str, k: int | None) -> str:
    return task + (f" with K = {k}" if k else "")


def cell_label(run: Run) -> str:
    return f"{run['row']} on {task_label(run['task'], run['k'])}"


def backbone_label(run: Run) -> str:
    """Return folder/file.pt and the beginning of the fingerprint."""
    path, sha256 = Path(run["backbone"]["path"]), run["backbone"]["sha256"]
    return f"{'/'.join(path.parts[-2:])} ({sha256[:8] or 'not read'})"


def architecture(run: Run) -> str:
    return run.get("arch") or "unknown architecture"
