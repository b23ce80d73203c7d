"""Runs as ``results.jsonl`` holds them, checked as they are read, and what is asked of one."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from preprocess.errors import InputError
from preprocess.tasks import TASKS

from ..run.experiment import ARROW, SELECTIONS
from ..run.records import LOG, REASONS, read_records, results_file, run_folder

Run = dict[str, Any]  # a line of results.jsonl
PROMPT = ("position", "supplementary_position", "prompt_length")
NEEDED = {  # by status
    "done": ("selection", "backbone", "lr", "seed", "dev", "test", "metric", "trainable", *PROMPT),
    "failed": ("selection", "lr", "seed"),
}
NOT_KNOWN = ("dev", "test", "metric", "trainable", "backbone", "options")  # to a run that failed: null
ValueKind = tuple[Callable[[Any], bool], str]  # whether a value is of this kind, and what the kind is called


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < 10**15  # a file may hold one that no float can hold
    return isinstance(value, float) and math.isfinite(value)


def is_count(value: Any) -> bool:
    return is_number(value) and isinstance(value, int) and value >= 0


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_words(value: Any) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


def is_name(value: Any) -> bool:
    return is_text(value) and bool(value) and value.isprintable()


def is_backbone(value: Any) -> bool:
    """Whether it is a path with its fingerprint, or a path alone."""
    return all(map(is_text, [value.get("path"), value.get("sha256")] if isinstance(value, dict) else [value]))


def is_options(value: Any) -> bool:
    """Whether they are all options as they took effect, or of a run that failed those that were given."""
    return isinstance(value, dict) or is_words(value)


def is_transfer(value: Any) -> bool:
    """Whether it is a mapping of tasks to scores of their own metrics."""
    return isinstance(value, dict) and all(
        task in TASKS
        and isinstance(found, dict)
        and found.get("metric") == TASKS[task].metric
        and isinstance(found.get("scores"), dict)
        and all(is_score(score) for score in (found.get("test"), *found["scores"].values()))
        and is_text(found.get("data", ""))
        for task, found in value.items()
    )


def is_scores(value: Any) -> bool:
    """Whether it is a mapping of splits to scores by metric."""
    of_splits = value.values() if isinstance(value, dict) else [None]
    return all(isinstance(scores, dict) and all(map(is_score, scores.values())) for scores in of_splits)


def is_sizes(value: Any) -> bool:
    """Whether it is a mapping of the two splits to numbers of examples."""
    return isinstance(value, dict) and all(is_count(value.get(split)) for split in ("dev", "test"))


def is_curve(value: Any) -> bool:
    """Whether it is a list of updates with the dev score after each."""
    points = value if isinstance(value, list) else [None]
    return all(isinstance(p, list) and len(p) == 2 and is_count(p[0]) and is_score(p[1]) for p in points)


def is_score(value: Any) -> bool:
    return is_number(value) and abs(value) <= 100


def among(known: Iterable[str]) -> ValueKind:
    return lambda value: is_text(value) and value in known, f"one of {', '.join(known)}"


def maybe(accepts: Callable[[Any], bool], name: str) -> ValueKind:
    return lambda value: value is None or accepts(value), f"{name} or null"


NAME: ValueKind = (is_name, "name")
SCORE: ValueKind = (is_score, "score from -100 to 100")
MEASURE: ValueKind = maybe(lambda value: is_number(value) and value >= 0, "number from 0 on")
WHOLE_NUMBER: ValueKind = (is_count, "whole number from 0 on")
VALUE_KINDS: dict[str, ValueKind] = {  # of what reports read
    "status": among(NEEDED),
    "setting": among(("full", "few-shot")),
    "selection": among(SELECTIONS),
    "row": NAME,
    "task": NAME,
    "metric": NAME,
    "dev": SCORE,
    "test": SCORE,
    "lr": (lambda value: is_number(value) and value > 0, "learning rate"),
    "seed": WHOLE_NUMBER,
    "trainable": WHOLE_NUMBER,
    **dict.fromkeys(("seconds_per_update", "peak_mib", "seconds_per_prediction"), MEASURE),
    **dict.fromkeys(
        ("k", *PROMPT, "batch_size", "max_epoch", "max_update", "best_update", "protocol"), maybe(is_count, "number")
    ),
    **dict.fromkeys(("command", "given_options"), maybe(is_words, "list of texts")),
    **dict.fromkeys(
        ("predictions", "error", "reason", "method", "read_sha256", "data_sha256", "hardware"), maybe(is_text, "text")
    ),
    "arch": maybe(is_name, "name"),
    "dev_curve": maybe(is_curve, "list of updates with scores"),
    "backbone": (is_backbone, "path with a sha256"),
    "options": (is_options, "mapping"),
    "scores": maybe(is_scores, "mapping of splits to scores"),
    "examples": maybe(is_sizes, "mapping of dev and test to numbers"),
    "versions": maybe(lambda value: isinstance(value, dict), "mapping of packages to versions"),
    "transfer": maybe(is_transfer, "mapping of tasks to scores"),
    "source_task": maybe(lambda value: is_text(value) and value in TASKS, "task"),
}


def backbone_of(run: Run) -> dict[str, str]:
    """Path and fingerprint; a run that failed may know the path alone, or neither."""
    found = run.get("backbone") or ""
    return found if isinstance(found, dict) else {"path": found, "sha256": ""}


def refuse_damage(run: Run, where: str) -> None:
    """Refuses a record without something that reports need, or with something else in its place."""
    remedy = "repeat it or remove its line"
    status = run.get("status")
    lacking = [key for key in ("row", "task", "setting", "k", "status") if key not in run]
    lacking += [key for key in NEEDED.get(status if isinstance(status, str) else "", ()) if key not in run]
    if lacking:
        raise InputError(f"{where} has no {', '.join(lacking)}: {remedy}")
    for key, (accepts, wanted) in VALUE_KINDS.items():
        unknown = status == "failed" and key in NOT_KNOWN and run.get(key) is None
        if key in run and not unknown and not accepts(run[key]):
            text = repr(run[key])
            value = text if len(text) < 80 else f"{text[:76]} ..."
            raise InputError(f"{where}: {key} {value} is no {wanted}: {remedy}")
    if status == "done" and not backbone_of(run)["sha256"]:  # two such would pass for the same backbone
        raise InputError(f"{where}: backbone {backbone_of(run)['path']} has no sha256: {remedy}")
    task = TASKS.get(run["task"])
    if task is None:
        raise InputError(f"{where} is of task {run['task']}, which is unknown: remove its line")
    if run.get("metric") not in (None, task.metric):
        raise InputError(f"{where}: metric {run['metric']} is not that of {task.name}: {remedy}")
    for split in ("dev", "test"):
        score, parts = run.get(split), (run.get("scores") or {}).get(split) or {}
        if parts.get(task.metric, score) != score:
            said = f"{split} {score} is not the {task.metric} {parts[task.metric]} of its scores"
            raise InputError(f"{where}: {said}: {remedy}")
    if (run["k"] is None) != (run["setting"] == "full"):
        raise InputError(f"{where}: setting {run['setting']} does not go with k {run['k']}: {remedy}")


# --- reading -------------------------------------------------------------------------------------

AnyRun = TypeVar("AnyRun")
Shared = TypeVar("Shared", bound=Hashable)  # by the runs of a group
SINGLE, PAIRS = "single sentences", "pairs"  # kinds of tasks
POSITIONS = {SINGLE: (0, 1, 4), PAIRS: (0, 1, 2, 3, 4)}  # Figure 6
NOT_RECORDED = "hardware that is not on record"


@dataclass(frozen=True)
class Results:
    """The runs of a folder, or of a file as ``run_scripts.publish`` writes them.

    Attributes:
        place: as it was named.
        continued: runs that go on from those of another task; in tables of transfer alone.
        supplementary: trainings of a backbone for other runs; in no table but the overview, because their checkpoint
            was chosen on the split that they report, whatever their selection.
    """

    place: Path
    runs: tuple[Run, ...]
    continued: tuple[Run, ...] = ()
    supplementary: tuple[Run, ...] = ()

    @property
    def folder(self) -> Path:
        """What paths of predictions and logs are relative to."""
        return results_file(self.place).parent

    def log(self, run: Run) -> Path | None:
        """What fairseq-train printed, where the run has left it beside the results."""
        log = run_folder(self.folder, run["run"]) / LOG
        return log if log.is_file() and self.folder.resolve() in log.resolve().parents else None


def read_results(place: Path) -> Results:
    """Every run of ``place/results.jsonl``, or of the file itself.

    Raises:
        InputError: there is no such file, no run in it, or a run that lacks or mistakes something that reports need.
    """
    path = results_file(place)
    if not path.exists():
        raise InputError(f"{path} does not exist: name the folder that a sweep wrote")
    if path.is_dir():
        raise InputError(f"{path} is a folder: name the folder that a sweep wrote, in which it is a file")
    runs = tuple(read_records(path))
    if not runs:
        raise InputError(f"{path} holds no runs: run a sweep first")
    for run in runs:
        refuse_damage(run, f"{path}: run {run['run']}")
    runs = tuple({**run, "backbone": backbone_of(run)} for run in runs)
    apart = grouped(runs, _kind)
    return Results(place, **{kind: tuple(apart.get(kind, ())) for kind in ("runs", "continued", "supplementary")})


def _kind(run: Run) -> str:
    """Which attribute of ``Results`` a run belongs to."""
    return (
        "continued" if run.get("source_task") is not None else "supplementary" if run.get("supplementary") else "runs"
    )


def has_finished(run: Run) -> bool:
    return run["status"] == "done"


def is_hopeless(run: Run) -> bool:
    """Whether a failed run would fail again: it has diverged, or there was too little memory."""
    return not has_finished(run) and run.get("reason") in REASONS


def hardware_of(run: Run) -> str | None:
    """What a run was made on: the names of its GPUs, or CPU; None where an older record leaves it open."""
    torch = (run.get("versions") or {}).get("torch") or ""
    return run.get("hardware") or ("CPU" if torch.endswith("+cpu") else None)


def on_one_hardware(rows: Mapping[str, Collection[Run]]) -> tuple[dict[str, list[Run]], list[str]]:
    """Of each row the runs whose seconds and memory can be compared with those of others, and a note on all else.

    They are those on the hardware that most rows have runs on, of several such the one with most runs.
    """
    counts = Counter(hardware_of(run) for runs in rows.values() for run in runs)
    if len(counts) < 2:
        return {name: list(runs) for name, runs in rows.items()}, []
    of_rows = Counter(kind for runs in rows.values() for kind in {hardware_of(run) for run in runs})
    taken = max(counts, key=lambda kind: (of_rows[kind], counts[kind], str(kind)))
    others = sorted(kind or NOT_RECORDED for kind in counts if kind != taken)
    left_out = f"those on {' and on '.join(others)} left out of them"
    note = f"seconds and memory: of the {counts[taken]} runs on {taken or NOT_RECORDED} alone, {left_out}"
    return {name: [run for run in runs if hardware_of(run) == taken] for name, runs in rows.items()}, [note]


def asked_options(run: Run) -> dict[str, str]:
    """Options that fairseq-train was given besides the paper's settings, with their values as one text.

    Records of before they were kept apart have none.
    """
    words = re.split(r" (?=--[a-z])", " ".join(run.get("given_options") or ()))
    found = (re.match(r"(--[a-z][^ =]*)[ =]?(.*)", word, re.DOTALL) for word in words)
    return {match[1]: match[2] for match in found if match}


def is_prompted(run: Run) -> bool:
    """Whether there are prompt rows in the run's input; a failed run may not say."""
    return run.get("prompt_length") is not None


def kind_of(task: str) -> str:
    """Of a task; of transfer between two, which are of one kind."""
    return PAIRS if TASKS[task.split(ARROW)[-1]].pairs else SINGLE


def task_label(task: str, k: int | None) -> str:
    return task + (f" with K = {k}" if k else "")


def cell_label(run: Run) -> str:
    """Row and task in messages and notes."""
    return f"{run['row']} on {task_label(run['task'], run['k'])}"


def backbone_label(run: Run) -> str:
    """folder/file.pt and the beginning of the fingerprint."""
    path, sha256 = Path(run["backbone"]["path"]), run["backbone"]["sha256"]
    return f"{'/'.join(path.parts[-2:])} ({sha256[:8] or 'not read'})"


def architecture(run: Run) -> str:
    """What ``--arch`` was in the run's command; a published record has none."""
    command = run.get("command") or []
    known = command[command.index("--arch") + 1] if "--arch" in command[:-1] else run.get("arch")
    return known or "unknown architecture"


def grouped(runs: Iterable[AnyRun], key: Callable[[AnyRun], Shared]) -> dict[Shared, list[AnyRun]]:
    """Groups, of runs or experiments, in the order of their first ones."""
    groups: dict[Shared, list[AnyRun]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return dict(groups)
