"""Runs as ``results.jsonl`` holds them, checked as they are read, and what is asked of one."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable
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
PROMPT = ("position", "supplementary_position", "prompt_length")
SPLITS = ("dev", "test")


# --- what a record must hold: it may be damaged, old, or edited by hand --------------------------

Check = Callable[[Any], bool]
LARGEST = sys.float_info.max


def number(least: float = -LARGEST, most: float = LARGEST, kinds: Any = (int, float)) -> Check:
    """Return a check for finite numbers in a range, which NaN is outside of."""
    return lambda value: isinstance(value, kinds) and not isinstance(value, bool) and least <= value <= most


def every(accepts: Check, kind: Any = list) -> Check:
    """Return a check for lists, or mappings, with such values."""
    return lambda value: isinstance(value, kind) and all(map(accepts, value.values() if kind is dict else value))


def one_of(names: Container[str]) -> Check:
    return lambda value: is_text(value) and value in names


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_name(value: Any) -> bool:
    return is_text(value) and bool(value) and value.isprintable()


def is_backbone(value: Any) -> bool:
    """Return whether it is a path with its fingerprint; two backbones without one would pass for the same."""
    return isinstance(value, dict) and is_text(value.get("path")) and is_name(value.get("sha256"))


def is_transfer(value: Any) -> bool:
    """Return whether it maps tasks to scores of their own metrics."""
    return isinstance(value, dict) and all(
        task in TASKS
        and isinstance(found, dict)
        and found.get("metric") == TASKS[task].metric
        and is_score(found.get("test"))
        and every(is_score, dict)(found.get("scores"))
        and is_text(found.get("data", ""))
        for task, found in value.items()
    )


is_count, is_measure, is_score = number(0, kinds=int), number(0), number(-100, 100)
IDENTITY: dict[str, Check] = {  # known of every run
    "status": one_of(("done", "failed")),
    "row": is_name,
    "task": one_of(TASKS),
    "setting": one_of(("full", "few-shot")),
    "k": lambda value: value is None or is_count(value),
    "selection": one_of(SELECTIONS),
    "lr": number(1e-300, 1e300),  # one that is too high diverges, which is a result
    "seed": is_count,
}
OUTCOME: dict[str, Check] = {  # known of a run that has finished
    **dict.fromkeys(SPLITS, is_score),
    "metric": is_text,
    "trainable": is_count,
    "backbone": is_backbone,
}
OPTIONAL: dict[str, Check] = {  # of this kind, or null
    **dict.fromkeys((*PROMPT, "dev_examples", "batch_size", "max_epoch", "max_update"), is_count),
    **dict.fromkeys(("best_update", "protocol"), is_count),
    **dict.fromkeys(("seconds_per_update", "seconds_per_prediction", "peak_mib", "warm_up"), is_measure),
    **dict.fromkeys(("command", "given_options"), every(is_text)),
    **dict.fromkeys(("predictions", "error", "reason", "method", "read_sha256", "data_sha256", "hardware"), is_text),
    "arch": is_name,
    "backbone": lambda value: is_text(value) or every(is_text, dict)(value) and {"path", "sha256"} <= set(value),
    "versions": lambda value: isinstance(value, dict) and is_text(value.get("torch") or ""),
    "scores": every(every(is_score, dict), dict),
    "dev_curve": every(lambda point: every(number())(point) and len(point) == 2 and is_score(point[1])),
    "transfer": is_transfer,
    "source_task": one_of(TASKS),
}


def damaged_key(run: Run) -> str | None:
    """Return the first key whose value is missing, or would make a wrong number or none; None if all is well."""
    done = run.get("status") == "done"
    for key, accepts in {**IDENTITY, **(OUTCOME if done else {})}.items():
        if key not in run or not accepts(run[key]):
            return key
    for key, accepts in OPTIONAL.items():
        if run.get(key) is not None and not accepts(run[key]):
            return key
    metric, scores = TASKS[run["task"]].metric, run.get("scores") or {}
    wrong = {
        "k": (run["k"] is None) != (run["setting"] == "full"),
        "metric": done and run["metric"] != metric,
        # One table reads the score, another table those of its parts.
        **{split: done and scores.get(split, {}).get(metric, run[split]) != run[split] for split in SPLITS},
        **{key: done and key not in run for key in PROMPT},
    }
    return next((key for key, is_wrong in wrong.items() if is_wrong), None)


# --- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Results:
    """The runs of a folder, or of a file as ``run_scripts.publish`` writes them."""

    place: Path  # as it was named
    runs: tuple[Run, ...]
    continued: tuple[Run, ...] = ()  # that go on from those of another task; in tables of transfer alone
    # Trainings of a backbone for other runs; in no table but the overview, because their checkpoint was chosen on the
    # split that they report, whatever their selection.
    supplementary: tuple[Run, ...] = ()

    @property
    def folder(self) -> Path:
        """What paths of predictions and logs are relative to."""
        return results_file(self.place).parent

    def log(self, run: Run) -> Path | None:
        """Return what fairseq-train printed, where the run has left it beside the results."""
        log = run_folder(self.folder, run["run"]) / LOG
        return log if file_within(self.folder, log) else None


def file_within(folder: Path, path: Path) -> bool:
    """Return whether a file is there, and in the folder: a record may name any place of the machine."""
    return path.is_file() and folder.resolve() in path.resolve().parents


def read_results(place: Path) -> Results:
    """Return every run of ``place/results.jsonl``, or of the file itself.

    Raises InputError where there are no runs, or a record lacks or mistakes something that reports need.
    """
    path = results_file(place)
    kinds: dict[str, list[Run]] = {"runs": [], "continued": [], "supplementary": []}
    for run in read_records(path):
        if key := damaged_key(run):
            said = f"{key} {str(run[key])[:80]!r}" if key in run else f"no {key}"
            raise InputError(f"{path}: run {run['run']} has a damaged record, {said}: repeat it or remove its line")
        backbone = run.get("backbone") or ""  # a run that failed may know the path alone, or neither
        known = backbone if isinstance(backbone, dict) else {"path": backbone, "sha256": ""}
        kind = "supplementary" if run.get("supplementary") else "runs"
        kinds["continued" if run.get("source_task") else kind].append({**run, "backbone": known})
    if not any(kinds.values()):
        raise InputError(f"{path} holds no runs: name the folder of a sweep that has run")
    return Results(place, **{kind: tuple(runs) for kind, runs in kinds.items()})


def grouped(runs: Iterable[AnyRun], key: Callable[[AnyRun], Shared]) -> dict[Shared, list[AnyRun]]:
    """Return groups, of runs or experiments, in the order of their first ones."""
    groups: dict[Shared, list[AnyRun]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return dict(groups)


# --- what is asked of a run ----------------------------------------------------------------------


def has_finished(run: Run) -> bool:
    return run["status"] == "done"


def is_hopeless(run: Run) -> bool:
    """Return whether a failed run would fail again: it has diverged, or there was too little memory."""
    return not has_finished(run) and run.get("reason") in REASONS


def is_prompted(run: Run) -> bool:
    """Return whether there are prompt rows in the run's input; a failed run may not say."""
    return run.get("prompt_length") is not None


def hardware_of(run: Run) -> str:
    """Return what a run was made on: the names of its GPUs, or CPU; older records may not say."""
    torch = (run.get("versions") or {}).get("torch") or ""
    return run.get("hardware") or ("CPU" if torch.endswith("+cpu") else "hardware that is not on record")


def asked_options(run: Run) -> dict[str, str]:
    """Return options that fairseq-train was given besides the paper's settings, with their values as one text.

    Records of before they were kept apart have none.
    """
    words = re.split(r" (?=--[a-z])", " ".join(run.get("given_options") or ()))
    found = (re.match(r"(--[a-z][^ =]*)[ =]?(.*)", word, re.DOTALL) for word in words)
    return {match[1]: match[2] for match in found if match}


def part_of(run: Run, split: str, metric: str) -> float | None:
    """Return a score by another metric than the task's own; None where the record does not say it."""
    return ((run.get("scores") or {}).get(split) or {}).get(metric)


def kind_of(task: str) -> str:
    """Return the kind of a task, or of two with an arrow between, which are of one kind."""
    return PAIRS if TASKS[task.split(ARROW)[-1]].pairs else SINGLE


def task_label(task: str, k: int | None) -> str:
    return task + (f" with K = {k}" if k else "")


def cell_label(run: Run) -> str:
    """Return row and task, for messages and notes."""
    return f"{run['row']} on {task_label(run['task'], run['k'])}"


def backbone_label(run: Run) -> str:
    """Return folder/file.pt and the beginning of the fingerprint."""
    path, sha256 = Path(run["backbone"]["path"]), run["backbone"]["sha256"]
    return f"{'/'.join(path.parts[-2:])} ({sha256[:8] or 'not read'})"


def architecture(run: Run) -> str:
    """Return what ``--arch`` was in the run's command; a published record has none."""
    command = run.get("command") or []
    known = command[command.index("--arch") + 1] if "--arch" in command[:-1] else run.get("arch")
    return known or "unknown architecture"
