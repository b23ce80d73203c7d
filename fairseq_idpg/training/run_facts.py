"""Facts of a training that is over, for a folder to share: its scores, settings, data and versions."""

import json
import math
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq.dataclass.configs import DatasetConfig
from torch import Tensor

from preprocess.build import installed_versions
from preprocess.checksums import content_digest
from preprocess.errors import reason_of

from ..errors import InputError
from ..saving.configuration import as_options, shown
from ..saving.tensors import EXTRA_STATE
from .kept_options import data_fingerprints

PACKAGES = ("torch", "numpy", "fairseq-fixed", "fairseq", "fairseq_idpg")
RUN_RECORD, SCORED = "record.json", "checkpoint_best.pt"  # run_scripts leaves the scores of the one in the other
# name of a fact on a card -> section and option of a checkpoint's configuration
FACTS = {
    "seed": ("common", "seed"),
    "lr": ("optimization", "lr"),
    "batch_size": ("dataset", "batch_size"),
    "max_epoch": ("optimization", "max_epoch"),
    "max_update": ("optimization", "max_update"),
    "metric": ("checkpoint", "best_checkpoint_metric"),
}
OF_RECORD = ("seed", "lr", "metric", "k", "best_epoch", "seconds", "git", "finished")


def beside(checkpoint: str) -> str | None:
    """Return the record beside a run's best checkpoint; other checkpoints of the run have other scores."""
    path = Path(checkpoint).with_name(RUN_RECORD)
    return str(path) if Path(checkpoint).name == SCORED and path.is_file() else None


def run_facts(state: Mapping[str, Any], data: Any, dataset: Mapping[str, Any], record: str | None) -> dict[str, Any]:
    """Return scores, seed and settings from the run's ``record``, and what it lacks from the checkpoint.

    ``data``: the folder that was trained on, as the command named it; ``dataset``: fairseq's options of its splits.
    Raise InputError where the record cannot be read, or has the scores of another checkpoint of the run.
    """
    cfg, extra = as_options(state.get("cfg")), as_options(state.get("extra_state"))
    settings = {name: plain(as_options(cfg.get(section)).get(option)) for name, (section, option) in FACTS.items()}
    score = plain(extra.get("val_loss"))
    scores = {"valid": {str(settings["metric"] or "loss"): score}} if isinstance(score, (int, float)) else {}
    if record is not None:
        run_record = read_run_record(record)
        history = state.get("optimizer_history")
        updates = as_options(history[-1]).get("num_updates") if isinstance(history, list) and history else None
        scored = run_record.get("best_update")
        if None not in (scored, updates) and scored != updates:
            raise InputError(
                f"{record} has the scores of a checkpoint after {shown(scored)} updates, and this one is after "
                f"{shown(updates)}: name its own with --record, or move that one away"
            )
        settings.update({name: plain(run_record[name]) for name in OF_RECORD if run_record.get(name) is not None})
        scores, data = run_record["scores"], run_record.get("data", data)
    # A relative path may lead elsewhere from here, and the folder may have been made again since.
    digest, fixed = None, as_options(as_options(state["model"].get(EXTRA_STATE, {}).get("run")).get("fixed"))
    if isinstance(data, str) and os.path.isdir(data):
        fingerprints = data_fingerprints(data, {**vars(DatasetConfig()), **dataset})
        digest = content_digest(Path(data)) if fingerprints.items() <= fixed.items() else None
    settings.update({name: settings[name] or None for name in ("max_epoch", "max_update")})  # 0: no limit
    facts = {"scores": scores, **settings, "data_sha256": digest}
    return {name: value for name, value in facts.items() if value is not None}


def read_run_record(path: str) -> dict[str, Any]:
    """Return a record with ``scores``: {split: {name: value}}; raise InputError where the file is no such record."""
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
        scores = {
            split: {name: float(value) for name, value in of_split.items()}
            for split, of_split in record["scores"].items()
        }
        if not all(math.isfinite(value) for of_split in scores.values() for value in of_split.values()):
            raise ValueError("a score is not finite")
        return {**record, "scores": scores}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"--record {path} is not a record of a run, which is JSON with scores of splits by name "
            f"({reason_of(error)}): name another file"
        ) from None


def plain(value: Any) -> Any:
    """Return a number, a string or a list of these as JSON has it, and None for other values."""
    if isinstance(value, Tensor) and value.numel() == 1 or isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        parts = [plain(part) for part in value]
        return None if None in parts else parts[0] if len(parts) == 1 else parts
    return value if isinstance(value, (int, str)) else None


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), **installed_versions(PACKAGES)}
