"""Train an experiment, test it, and write RESULTS/runs/RUN/{experiment.json, train.log, checkpoint_best.pt,
predictions.npz, record.json}; predictions-TASK.npz of each other task that it answers.

``python -m run_scripts.run.perform RESULTS RUN [--keep-whole-model]`` is a sweep's job on this machine: it makes the
run whose experiment.json is there.
"""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairseq_idpg.inference.folder import SplitPredictions, load_on_folder, predict_split
from fairseq_idpg.training.run_facts import versions
from preprocess.data_folder import DataFolder
from preprocess.errors import InputError, command_line
from preprocess.questions import Questions
from preprocess.tasks import Task, find_task, known_task
from preprocess.writing import new_file, write_text

from .. import PARENT, ROOT
from .command import cache_of, source_checkpoint, training_command, trains_whole_model
from .experiment import PROTOCOL, REPORTED, Experiment, Splits, backbone_digest, folder_digest, splits_of
from .fairseq_train import check_whole, dev_curve, drop_optimizer, train, training_facts
from .metrics import Scores, macro_scores, score
from .records import BEST_CHECKPOINT, EXPERIMENT, LAST_CHECKPOINT, LOG, RECORD, Record, held, run_folder

OPTION_GROUPS = ("model", "task", "criterion", "optimizer", "lr_scheduler", "optimization", "dataset", "common")


def perform(experiment: Experiment, results: Path, echo: bool = False, keep_whole_model: bool = True) -> Record:
    """Return the record of a run: of a finished one it is read; one that was killed goes on.

    Raise InputError where fairseq-train fails, with the last line of its log, or data is damaged. ``echo`` prints its
    output; without ``keep_whole_model`` the checkpoint of a run that trains the backbone goes, which is as large.
    """
    run, results = experiment.run, results.absolute()
    folder = run_folder(results, run)
    with held(folder, wait=True, inherit=True):
        record = finished_record(results, run)
        if record is None:
            write_text(folder / EXPERIMENT, experiment.to_json())
            record = make_record(experiment, run, results, echo)
            write_text(folder / RECORD, json.dumps(record))
        if others := unanswered(record, experiment):
            transfer, best = dict(record.get("transfer") or {}), folder / BEST_CHECKPOINT
            for task, data in others:
                again = "the run is made again (keep_whole_models: true keeps models that train the backbone)"
                check_whole(best, f"{task} cannot be answered: remove {folder}, and {again}")
                transfer[task] = evaluate_elsewhere(experiment, task, data, best, cache_of(experiment, results))
            record = {**record, "transfer": transfer}
            write_text(folder / RECORD, json.dumps(record))
        (folder / LAST_CHECKPOINT).unlink(missing_ok=True)
        if trains_whole_model(experiment) and not keep_whole_model:
            (folder / BEST_CHECKPOINT).unlink(missing_ok=True)
    return record


def unanswered(record: Record, experiment: Experiment) -> list[tuple[str, str]]:
    """Return (task, folder) of the other tasks that a finished run has not answered, or on other data."""
    known = record.get("transfer") or {}
    others, vectors = zip(experiment.eval_tasks, experiment.eval_data), experiment.reads_word_vectors
    return [(task, data) for task, data in others if known.get(task, {}).get("data") != folder_digest(data, vectors)]


def finished_record(results: Path, run: str, experiment: Experiment | None = None) -> Record | None:
    """Return the record of a run if it is done, with the other tasks of an ``experiment`` too."""
    path = run_folder(results, run) / RECORD
    if not path.exists():
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    return None if experiment is not None and unanswered(record, experiment) else record


def make_record(experiment: Experiment, run: str, results: Path, echo: bool) -> Record:
    folder, cache = run_folder(results, run), cache_of(experiment, results)
    best, log = folder / BEST_CHECKPOINT, folder / LOG
    splits = splits_of(experiment, results / "data")
    if experiment.source_run:
        again = "remove its folder and the line of that run, and the sweep makes it again"
        check_whole(source_checkpoint(experiment, folder), f"{experiment} starts from it: {again}")
    command = training_command(experiment, splits, folder, cache)
    train(command, log, echo)  # a training that had ended makes no further update
    check_whole(best, f"remove it and {LAST_CHECKPOINT}, and the same command trains this run from its start")
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


def described(experiment: Experiment, run: str) -> Record:
    """Return the fields of a record that describe its experiment, for finished and failed runs."""
    return {
        **asdict(experiment),
        "run": run,
        "row": experiment.row or experiment.method,
        "setting": "full" if experiment.k is None else "few-shot",
        "position": experiment.prompt_position,
        "metric": experiment.facts.metric,
        **({"pairs": experiment.facts.pairs} if known_task(experiment.task) is None else {}),
        "protocol": PROTOCOL,
        "prompt_length": None,  # unknown without the model
        "backbone": {"path": experiment.backbone, "sha256": backbone_digest(experiment.backbone)},
        "data_sha256": folder_digest(experiment.data, word_vectors=True),
        "read_sha256": experiment.read_digest,  # of the part that decides the result
        "given_options": list(experiment.options),  # "options" are all that took effect
    }


def revision() -> str | None:
    """Return the commit of the code, with ``+`` where files have changed since; None without a git repository."""
    if PARENT:  # a repository around an installed package is another project's
        return None
    command = ["git", "-C", str(ROOT), "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or None
    except OSError:
        return None


# --- evaluation ------------------------------------------------------------------------------------------------------


def evaluate(experiment: Experiment, splits: Splits, checkpoint: Path, cache: Path | None) -> dict[str, Any]:
    """Return the fields of a record about a checkpoint; save its predictions beside it, in predictions.npz."""
    metric, seconds = experiment.facts.metric, 0.0
    arrays: dict[str, Any] = {}
    scores, examples = {}, {}
    with quiet():
        model, task = load(experiment, checkpoint, splits.folder, cache)
        for name, split in (("dev", splits.dev), ("test", splits.reported)):
            started = time.perf_counter()
            scores[name], found = judged(experiment.facts, model, task, splits.folder, split, name)
            examples[name] = len(found[name])
            seconds = (time.perf_counter() - started) / max(1, examples[name])  # of an example of the last split
            arrays.update(found)
    with new_file(checkpoint.with_name("predictions.npz")) as work:
        np.savez_compressed(work, **arrays)
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return {
        "scores": scores,
        "examples": examples,
        "dev": scores["dev"][metric],
        "test": scores["test"][metric],
        "trainable": trained - model.parameter_counts()["head"],
        "prompt_length": model.prompt_length or None,
        "seconds_per_prediction": round(seconds, 6),
        **saved_facts(checkpoint),
    }


def evaluate_elsewhere(
    experiment: Experiment, task: str, data: str, checkpoint: Path, cache: Path | None
) -> dict[str, Any]:
    """Return scores on another task's ``valid``, classes matched by their meaning; save the predictions."""
    facts, folder = find_task(task), DataFolder(Path(data))
    with quiet():
        scores, arrays = judged(facts, *load(experiment, checkpoint, folder, cache), folder, REPORTED, "test")
    with new_file(checkpoint.with_name(f"predictions-{task}.npz")) as work:
        np.savez_compressed(work, **arrays)
    digest = folder_digest(data, experiment.reads_word_vectors)
    return {"metric": facts.metric, "scores": scores, "test": scores[facts.metric], "data": digest}


def load(experiment: Experiment, checkpoint: Path, folder: DataFolder, cache: Path | None) -> tuple[Any, Any]:
    cpu = "--cpu" in experiment.options
    return load_on_folder(str(checkpoint), str(folder.path), cpu, representation_cache=cache and str(cache))


def judged(
    facts: Task, model: Any, task: Any, folder: DataFolder, split: str, name: str
) -> tuple[Scores, dict[str, Any]]:
    """Return a model's scores on a split with labels, and the arrays of predictions.npz under a name.

    The scores are those of the task's own metric and, for classes, those that ID-SPAM reports.
    """
    questions = folder.questions(split)
    answers, targets = numbered(predict_split(model, task, split), questions if facts.by_choice else None)
    if targets is None:
        raise InputError(f"{folder.path} has no labels of {split}: preprocess it with labels")
    macro = {} if facts.regression or facts.by_choice else macro_scores(answers, targets)
    arrays: dict[str, Any] = {name: answers, f"{name}_targets": targets}
    if questions is not None:
        columns = {"question": questions.number, "em": questions.em, "f1": questions.f1}
        arrays |= {f"{name}_{column}": values for column, values in columns.items() if values is not None}
    return {**score(facts.metric, answers, targets, questions), **macro}, arrays


def numbered(found: SplitPredictions, questions: Questions | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return answers, and targets if any; with ``questions``, one example of each is chosen.

    Of classes whose names are numbers, these are returned: F1 is that of the label 1.
    """
    answers = found.answers if questions is None else found.answers_to(questions)
    if not found.label_names or not all(label.isdecimal() for label in found.label_names):
        return answers, found.targets
    numbers = np.array([int(label) for label in found.label_names])
    return numbers[answers], None if found.targets is None else numbers[found.targets]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence messages of loggers, which the training has printed before."""
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def saved_facts(checkpoint: Path) -> dict[str, Any]:
    """Return ``best_epoch``, counted from 1, ``best_update``, and the ``options`` that took effect."""
    state = torch.load(checkpoint, weights_only=True, mmap=True)
    iterator = state["extra_state"]["train_iterator"]
    ended = iterator["iterations_in_epoch"] == 0  # at its end, an epoch is saved as the start of the next one
    options = {group: state["cfg"][group] for group in OPTION_GROUPS}
    return {
        "best_epoch": iterator["epoch"] - ended,
        "best_update": state["optimizer_history"][-1]["num_updates"],
        "options": json.loads(json.dumps(options, default=str)),
    }


@command_line("run_scripts", "the same command goes on")
def main() -> None:
    results, run, *more = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # and so fairseq-train is terminated too
    text = (run_folder(Path(results), run) / EXPERIMENT).read_text(encoding="utf-8")
    perform(Experiment.from_json(text), Path(results), keep_whole_model="--keep-whole-model" in more)


if __name__ == "__main__":
    main()
