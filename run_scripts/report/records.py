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
AnyRun = TypeVar("AnyRun")
Shared = TypeVar("Shared", bound=Hashable)  # by the runs of a group
SINGLE, PAIRS = "single sentences", "pairs"  # kinds of tasks
POSITIONS = {SINGLE: (0, 1, 4), PAIRS: (0, 1, 2, 3, 4)}  # Figure 6
NOT_RECORDED = "hardware that is not on record"
PROMPT = ("position", "supplementary_position", "prompt_length")
SPLITS = ("dev", "test")


# --- what a record must hold: it may be damaged, old, or edited by hand --------------------------


def is_number(value: Any, least: float = -math.inf, most: float = math.inf) -> bool:
    """Return whether a value is a finite number in a range; a file may hold a whole number that no float can hold."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**15
    return (whole or isinstance(value, float) and math.isfinite(value)) and least <= value <= most


def is_count(value: Any) -> bool:
    return isinstance(value, int) and is_number(value, 0)


def is_measure(value: Any) -> bool:
    return is_number(value, 0)


def is_score(value: Any) -> bool:
    return is_number(value, -100, 100)


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_name(value: Any) -> bool:
    return is_text(value) and bool(value) and value.isprintable()


def is_list_of(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(accepts, value))


def is_mapping_to(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(accepts, value.values()))


def is_backbone(value: Any) -> bool:
    """Whether it is a path with its fingerprint; two backbones without one would pass for the same."""
    return isinstance(value, dict) and is_text(value.get("path")) and is_name(value.get("sha256"))


def is_transfer(value: Any) -> bool:
    """Whether it is a mapping of tasks to scores of their own metrics."""
    return isinstance(value, dict) and all(
        task in TASKS
        and isinstance(found, dict)
        and found.get("metric") == TASKS[task].metric
        and is_score(found.get("test"))
        and is_mapping_to(is_score)(found.get("scores"))
        and is_text(found.get("data", ""))
        for task, found in value.items()
    )


IDENTITY: dict[str, Callable[[Any], bool]] = {  # known of every run
    "status": lambda value: value in ("done", "failed"),
    "row": is_name,
    "task": lambda value: is_text(value) and value in TASKS,
    "setting": lambda value: value in ("full", "few-shot"),
    "k": lambda value: value is None or is_count(value),
    "selection": lambda value: is_text(value) and value in SELECTIONS,
    "lr": lambda value: is_number(value, 1e-300, 1e300),  # one that is too high diverges, which is a result
    "seed": is_count,
}
OUTCOME: dict[str, Callable[[Any], bool]] = {  # known of a run that has finished
    "dev": is_score,
    "test": is_score,
    "metric": is_text,
    "trainable": is_count,
    "backbone": is_backbone,
}
OPTIONAL: dict[str, Callable[[Any], bool]] = {  # of this kind, or null
    **dict.fromkeys((*PROMPT, "dev_examples", "batch_size", "max_epoch", "max_update"), is_count),
    **dict.fromkeys(("best_update", "protocol"), is_count),
    **dict.fromkeys(("seconds_per_update", "seconds_per_prediction", "peak_mib", "warm_up"), is_measure),
    **dict.fromkeys(("command", "given_options"), is_list_of(is_text)),
    **dict.fromkeys(("predictions", "error", "reason", "method", "read_sha256", "data_sha256", "hardware"), is_text),
    "arch": is_name,
    "backbone": lambda value: is_text(value) or is_mapping_to(is_text)(value) and {"path", "sha256"} <= set(value),
    "versions": lambda value: isinstance(value, dict) and is_text(value.get("torch") or ""),
    "scores": is_mapping_to(is_mapping_to(is_score)),
    "dev_curve": is_list_of(lambda point: is_list_of(is_number)(point) and len(point) == 2 and is_score(point[1])),
    "transfer": is_transfer,
    "source_task": lambda value: is_text(value) and value in TASKS,
}


def damaged_key(run: Run) -> str | None:
    """Return the first key whose value is missing, or would make a wrong number or none; None if all is well."""
    known = {**IDENTITY, **OUTCOME} if run.get("status") == "done" else IDENTITY
    for key, accepts in known.items():
        if key not in run or not accepts(run[key]):
            return key
    for key, accepts in OPTIONAL.items():
        if run.get(key) is not None and not accepts(run[key]):
            return key
    if (run["k"] is None) != (run["setting"] == "full"):
        return "k"
    if run["status"] == "failed":
        return None
    metric = TASKS[run["task"]].metric
    if run["metric"] != metric:
        return "metric"
    # One table reads the score, another table those of its parts.
    for split in SPLITS:
        if ((run.get("scores") or {}).get(split) or {}).get(metric, run[split]) != run[split]:
            return split
    return next((key for key in PROMPT if key not in run), None)


# --- reading -------------------------------------------------------------------------------------


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
    """Return every run of ``place/results.jsonl``, or of the file itself.

    Raises:
        InputError: there are no runs, or a record lacks or mistakes something that reports need.
    """
    path = results_file(place)
    runs = read_records(path)
    if not runs:
        raise InputError(f"{path} holds no runs: name the folder of a sweep that has run")
    for run in runs:
        if key := damaged_key(run):
            said = f"{key} {str(run[key])[:80]!r}" if key in run else f"no {key}"
            raise InputError(f"{path}: run {run['run']} has a damaged record, {said}: repeat it or remove its line")
    apart = grouped(({**run, "backbone": backbone_of(run)} for run in runs), _kind)
    return Results(place, **{kind: tuple(apart.get(kind, ())) for kind in ("runs", "continued", "supplementary")})


def backbone_of(run: Run) -> dict[str, str]:
    """Path and fingerprint; a run that failed may know the path alone, or neither."""
    found = run.get("backbone") or ""
    return found if isinstance(found, dict) else {"path": found, "sha256": ""}


def _kind(run: Run) -> str:
    """Which attribute of ``Results`` a run belongs to."""
    if run.get("source_task") is not None:
        return "continued"
    return "supplementary" if run.get("supplementary") else "runs"


def grouped(runs: Iterable[AnyRun], key: Callable[[AnyRun], Shared]) -> dict[Shared, list[AnyRun]]:
    """Groups, of runs or experiments, in the order of their first ones."""
    groups: dict[Shared, list[AnyRun]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return dict(groups)


# --- what is asked of a run ----------------------------------------------------------------------


def has_finished(run: Run) -> bool:
    return run["status"] == "done"


def is_hopeless(run: Run) -> bool:
    """Whether a failed run would fail again: it has diverged, or there was too little memory."""
    return not has_finished(run) and run.get("reason") in REASONS


def is_prompted(run: Run) -> bool:
    """Whether there are prompt rows in the run's input; a failed run may not say."""
    return run.get("prompt_length") is not None


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
