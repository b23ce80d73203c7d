"""What a line of ``results.jsonl`` must hold for reports to read it: it may be damaged, old, or edited by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from preprocess.errors import InputError
from preprocess.tasks import TASKS

from ..run.experiment import SELECTIONS

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
