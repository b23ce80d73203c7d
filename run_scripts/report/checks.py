"""What a line of results must hold before a report reads it: it may be damaged, old, or edited by hand."""

from __future__ import annotations

import math
from typing import Any, Callable

from preprocess.tasks import TASKS
from run_scripts.run.experiment import SELECTIONS
from run_scripts.run.records import RunError

PROMPT = ("position", "supplementary_position", "prompt_length")
NEEDED = {  # by status
    "done": ("selection", "backbone", "lr", "seed", "dev", "test", "metric", "trainable", *PROMPT),
    "failed": ("selection", "lr", "seed"),
}
Kind = tuple[Callable[[Any], bool], str]  # whether a value is of this kind, and what the kind is called


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < 10**15  # a file may hold one that no float can hold
    return isinstance(value, float) and math.isfinite(value)


def is_whole(value: Any) -> bool:
    return is_number(value) and isinstance(value, int) and value >= 0


def is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable()


def is_backbone(value: Any) -> bool:
    """Whether it is a path with its fingerprint, or a path alone."""
    return all(map(is_text, [value.get("path"), value.get("sha256")] if isinstance(value, dict) else [value]))


def is_options(value: Any) -> bool:
    """Whether they are all options as they took effect, or of a run that failed those that were given."""
    return isinstance(value, dict) or is_words(value)


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def one_of(*known: str) -> Kind:
    return lambda value: is_text(value) and value in known, f"one of {', '.join(known)}"


def maybe(accepts: Callable[[Any], bool], name: str) -> Kind:
    return lambda value: value is None or accepts(value), f"{name} or null"


NAME: Kind = (is_name, "name")
SCORE: Kind = (lambda value: is_number(value) and abs(value) <= 100, "score from -100 to 100")
KINDS: dict[str, Kind] = {  # of what reports read
    **{"status": one_of(*NEEDED), "setting": one_of("full", "few-shot"), "selection": one_of(*SELECTIONS)},
    **{"row": NAME, "task": NAME, "metric": NAME, "dev": SCORE, "test": SCORE},
    **{"lr": (lambda value: is_number(value) and value > 0, "learning rate")},
    **dict.fromkeys(("seed", "trainable"), (is_whole, "whole number from 0 on")),
    **dict.fromkeys(("k", *PROMPT, "batch_size", "max_epoch", "max_update", "protocol"), maybe(is_whole, "number")),
    **dict.fromkeys(("command", "given_options"), maybe(is_words, "list of texts")),
    **dict.fromkeys(("predictions", "error", "reason"), maybe(is_text, "text")),
    **{"backbone": (is_backbone, "path with a sha256"), "options": (is_options, "mapping")},
}

NOT_KNOWN = ("dev", "test", "metric", "trainable", "backbone", "options")  # to a run that failed: null


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:76]} ..."


def check(run: dict[str, Any], where: str) -> None:
    """Refuses a record without something that reports need, or with something else in its place.

    Raises:
        RunError: naming the record and the key.
    """
    remedy = "repeat it or remove its line"
    status = run.get("status")
    lacking = [key for key in ("row", "task", "setting", "k", "status") if key not in run]
    lacking += [key for key in NEEDED.get(status if is_text(status) else "", ()) if key not in run]
    if lacking:
        raise RunError(f"{where} has no {', '.join(lacking)}: {remedy}")
    for key, (accepts, wanted) in KINDS.items():
        unknown = status == "failed" and key in NOT_KNOWN and run.get(key) is None
        if key in run and not unknown and not accepts(run[key]):
            raise RunError(f"{where}: {key} {shown(run[key])} is no {wanted}: {remedy}")
    task = TASKS.get(run["task"])
    if task is None:
        raise RunError(f"{where} is of task {run['task']}, which is unknown: remove its line")
    if run.get("metric") not in (None, task.metric):
        raise RunError(f"{where}: metric {run['metric']} is not that of {task.name}: {remedy}")
    if (run["k"] is None) != (run["setting"] == "full"):
        raise RunError(f"{where}: setting {run['setting']} does not go with k {run['k']}: {remedy}")
