"""Trains an experiment, tests it, and writes RESULTS/runs/RUN/{experiment.json, train.log, checkpoint_best.pt,
predictions.npz, record.json}; predictions-TASK.npz of each other task that it answers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from fairseq_idpg.training.run_facts import versions
from preprocess.writing import write_text

from .. import PARENT, ROOT
from .command import cache_of, source_checkpoint, training_command, trains_whole_model
from .evaluation import evaluate, evaluate_elsewhere
from .experiment import PROTOCOL, Experiment, backbone_digest, folder_digest
from .fairseq_train import (
    check_whole,
    dev_curve,
    drop_optimizer,
    has_all_updates,
    train,
    training_facts,
)
from .records import BEST_CHECKPOINT, EXPERIMENT, LAST_CHECKPOINT, LOG, RECORD, Record, held, run_folder
from .splits import splits_of


def perform(experiment: Experiment, results: Path, echo: bool = False, keep_whole_model: bool = True) -> Record:
    """The record of a run; one that was finished before is read, one that was killed goes on.

    Args:
        results: folder of all runs, which also holds their splits and M(x).
        echo: print what fairseq-train prints.
        keep_whole_model: keep the checkpoint even of a run that trains the backbone and so is as large.

    Raises:
        InputError: fairseq-train failed, as the last line of its log says; the data has too few examples, or is
            damaged.
    """
    run, results = experiment.run, results.absolute()
    folder = run_folder(results, run)
    with held(folder, wait=True, inherit=True):
        record = finished(results, run)
        if record is None:
            write_text(folder / EXPERIMENT, experiment.to_json())
            record = make_record(experiment, run, results, echo)
            write_text(folder / RECORD, json.dumps(record))
        if not has_all_scores(record, experiment):
            record = {**record, "transfer": answer_others(experiment, record, folder, cache_of(experiment, results))}
            write_text(folder / RECORD, json.dumps(record))
        (folder / LAST_CHECKPOINT).unlink(missing_ok=True)
        if trains_whole_model(experiment) and not keep_whole_model:
            (folder / BEST_CHECKPOINT).unlink(missing_ok=True)
    return record


def has_all_scores(record: Record, experiment: Experiment) -> bool:
    """Whether a record of a run that is done has its scores on all tasks that are asked for, as their folders are."""
    return not list(unanswered(record, experiment))


def unanswered(record: Record, experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Tasks, and their folders, on which the run has no score."""
    known = record.get("transfer") or {}
    for task, data in zip(experiment.eval_tasks, experiment.eval_data):
        if task not in known or known[task].get("data") not in digests_of(experiment, data):
            yield task, data


def digests_of(experiment: Experiment, data: str) -> set[str]:
    """What says that a folder is still the one that a score is of; older records also tell vectors that no run read."""
    return {folder_digest(data, word_vectors) for word_vectors in {experiment.reads_word_vectors, True}}


def answer_others(experiment: Experiment, record: Record, folder: Path, cache: Path | None) -> dict[str, Any]:
    """Task -> scores of the trained model on it, without training: those of the record, and those that it lacks.

    Raises:
        InputError: see ``evaluate_elsewhere``; the checkpoint is not there any more.
    """
    best, answered = folder / BEST_CHECKPOINT, dict(record.get("transfer") or {})
    for task, data in unanswered(record, experiment):
        again = "the run is made again (keep_whole_models: true keeps models that train the backbone)"
        check_whole(best, f"{task} cannot be answered: remove {folder}, and {again}")
        answered[task] = evaluate_elsewhere(experiment, task, data, best, cache)
    return answered


def finished(results: Path, run: str, experiment: Experiment | None = None) -> Record | None:
    """Return the record of a run if it is done, and if it is whole where an ``experiment`` is given."""
    path = run_folder(results, run) / RECORD
    if not path.exists():
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    return record if experiment is None or has_all_scores(record, experiment) else None


def make_record(experiment: Experiment, run: str, results: Path, echo: bool) -> Record:
    """Trains, predicts and puts the record together."""
    folder, cache = run_folder(results, run), cache_of(experiment, results)
    last, best, log = folder / LAST_CHECKPOINT, folder / BEST_CHECKPOINT, folder / LOG
    splits = splits_of(experiment, results / "data")
    check_source(experiment, folder)
    command = training_command(experiment, splits, folder, cache)
    again = "and the same command trains this run from its start"
    if last.exists():
        check_whole(last, f"remove it, {again}")
    if not has_all_updates(last):
        train(command, log, echo)
    # a training that has ended does not write it again
    check_whole(best, f"remove it and {LAST_CHECKPOINT}, {again}")
    if trains_whole_model(experiment):
        drop_optimizer(best)
    return {
        **described(experiment, run),
        **evaluate(experiment, splits, best, cache),
        **training_facts(log),
        "dev_curve": dev_curve(log, experiment.facts.metric),
        "predictions": str((folder / "predictions.npz").relative_to(results)),
        "command": command,
        "versions": versions(),
        "git": revision(),
        "status": "done",
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def check_source(experiment: Experiment, folder: Path) -> None:
    """Raises InputError where the run that this one goes on from has left no whole checkpoint."""
    if experiment.source_run:
        again = "remove its folder and the line of that run, and the sweep makes it again"
        check_whole(source_checkpoint(experiment, folder), f"{experiment} starts from it: {again}")


def described(experiment: Experiment, run: str) -> Record:
    """What a record says of its experiment, whether it succeeded or failed."""
    return {
        **asdict(experiment),
        "run": run,
        "row": experiment.row or experiment.method,
        "setting": experiment.setting,
        "position": experiment.prompt_position,
        "metric": experiment.facts.metric,
        "protocol": PROTOCOL,
        "prompt_length": None,  # not known before the model is there
        "backbone": {"path": experiment.backbone, "sha256": backbone_digest(experiment.backbone)},
        "data_sha256": folder_digest(experiment.data, word_vectors=True),
        "read_sha256": experiment.read_digest,  # the part of it that decides the result
        "given_options": list(experiment.options),  # "options" are all, as they took effect
    }


def revision() -> str | None:
    """The commit of the code, with ``+`` where files were changed since; None where there is no git repository.

    Where fairseq_idpg is installed, a repository around it is somebody else's.
    """
    if PARENT:
        return None
    command = ["git", "-C", str(ROOT), "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or None
    except OSError:
        return None
