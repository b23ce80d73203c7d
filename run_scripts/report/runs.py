"""Runs as ``results.jsonl`` holds them, checked as they are read, and what is asked of one."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from preprocess.errors import InputError
from preprocess.tasks import TASKS

from ..run.experiment import ARROW
from ..run.records import LOG, REASONS, read_records, results_file, run_folder
from .record_schema import Run, backbone_of, refuse_damage

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
