"""Runs as ``results.jsonl`` holds them, and what is asked of one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Hashable, Iterable

from preprocess.tasks import TASKS
from run_scripts.run.records import REASONS, RunError, read_records, results_file

from .checks import check

Run = dict[str, Any]  # a line of results.jsonl
SINGLE, PAIRS = "single sentences", "pairs"  # kinds of tasks
CELL = ("row", "task", "k", "selection", "position", "supplementary_position")


@dataclass(frozen=True)
class Results:
    """A folder of results: paths of predictions are relative to it."""

    folder: Path
    runs: tuple[Run, ...]


def read_results(place: Path) -> Results:
    """Every run of ``place/results.jsonl``, or of the file itself.

    Raises:
        RunError: there is no such file, no run in it, or a run that lacks or mistakes something that reports need.
    """
    path = results_file(place)
    if not path.exists():
        raise RunError(f"{path} does not exist: name the folder that a sweep wrote")
    if path.is_dir():
        raise RunError(f"{path} is a folder: name the folder that a sweep wrote, in which it is a file")
    runs = tuple(read_records(path))
    if not runs:
        raise RunError(f"{path} holds no runs: run a sweep first")
    for run in runs:
        check(run, f"{path}: run {run['run']}")
    return Results(path.parent, tuple({**run, "backbone": _backbone(run)} for run in runs))


def _backbone(run: Run) -> dict[str, str]:
    """Path and fingerprint; a run that failed may know the path alone, or neither."""
    found = run.get("backbone") or ""
    return found if isinstance(found, dict) else {"path": found, "sha256": ""}


def is_done(run: Run) -> bool:
    return run["status"] == "done"


def is_hopeless(run: Run) -> bool:
    """Whether a failed run would fail again: it has diverged, or there was too little memory."""
    return not is_done(run) and run.get("reason") in REASONS


def is_variant(failed: Run, done: Run) -> bool:
    """Whether a failed run is of the same table cell as one that has finished; some may not know all of themselves."""
    known = all(failed.get(key) == done[key] for key in CELL)
    length, sha256 = failed.get("prompt_length"), failed["backbone"]["sha256"]
    return known and length in (None, done["prompt_length"]) and sha256 in ("", done["backbone"]["sha256"])


def is_prompted(run: Run) -> bool:
    """Whether there are prompt rows in the run's input; a failed run may not say."""
    return run.get("prompt_length") is not None


def kind_of(task: str) -> str:
    return PAIRS if TASKS[task].pairs else SINGLE


def backbone_name(run: Run) -> str:
    """folder/file.pt and the beginning of the fingerprint."""
    path, sha256 = Path(run["backbone"]["path"]), run["backbone"]["sha256"]
    return f"{'/'.join(path.parts[-2:])} ({sha256[:8] or 'not read'})"


def architecture(run: Run) -> str:
    """What ``--arch`` was in the run's command."""
    command = run.get("command") or []
    return command[command.index("--arch") + 1] if "--arch" in command[:-1] else "unknown architecture"


def grouped(runs: Iterable[Run], key: Callable[[Run], Hashable]) -> dict[Any, list[Run]]:
    """Groups in the order of their first runs."""
    groups: dict[Any, list[Run]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return dict(groups)
