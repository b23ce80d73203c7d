"""Made-up runs for the tests of the report, and what its tables say of them."""

import itertools
import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from preprocess.tasks import TASKS
from run_scripts.report.__main__ import choice_of, make, parser
from run_scripts.report.records import read_results
from run_scripts.report.render import Table
from run_scripts.run.records import append_record

Run = dict[str, Any]
MINILM = "roberta_idpg_minilm"
BACKBONE = {"path": "/models/roberta.large/model.pt", "sha256": "ab12" * 16}
OTHER = {"path": "/models/mnli/model.pt", "sha256": "cd34" * 16}
TEN = ("MPQA", "SUBJ", "CR", "MR", "SST-2", "QNLI", "RTE", "MRPC", "STS-B", "QQP")
FEW = {"setting": "few-shot", "k": 100}
NUMBERS = itertools.count(1)


def run(
    row: str, task: str, seed: int = 1, lr: float = 1e-3, dev: float = 80.0, test: float = 80.0, **more: Any
) -> Run:
    """A finished run of full training with a prompt of 5 rows; ``more`` replaces or adds keys."""
    identity = {"run": f"{next(NUMBERS):012x}", "row": row, "task": task, "setting": "full", "k": None, "lr": lr}
    prompt = {"position": int(TASKS[task].pairs), "supplementary_position": None, "prompt_length": 5}
    outcome = {"metric": TASKS[task].metric, "dev": dev, "test": test, "trainable": 1000, "backbone": BACKBONE}
    others = {"seed": seed, "selection": "clean", "status": "done", "predictions": None, "options": {}}
    return {**identity, **prompt, **outcome, **others, "arch": "roberta_idpg_large", **more}


def failed(row: str, task: str, seed: int = 1, **more: Any) -> Run:
    gone = {"dev": None, "test": None, "status": "failed", "error": "out of memory"}
    return {**run(row, task, seed), **gone, **more}


def seeds(row: str, task: str, tests: Iterable[float], **more: Any) -> list[Run]:
    """A run for each test score, with the seeds 1, 2, ..."""
    return [run(row, task, seed, test=test, **more) for seed, test in enumerate(tests, 1)]


def write(folder: Path, runs: Iterable[Run]) -> Path:
    for record in runs:
        append_record(folder, record)
    return folder


def report(folder: Path, runs: Iterable[Run], command: str = "") -> Any:
    """The table or chart that ``python -m run_scripts.report FOLDER COMMAND`` makes of these runs alone."""
    folder.mkdir(exist_ok=True)
    (folder / "results.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in runs))
    args = parser().parse_args([str(folder), *shlex.split(command)])
    return make(args, read_results(args.results), choice_of(args))


def save_predictions(folder: Path, record: Run, test: list, targets: list, **more: list) -> Run:
    """The run with predictions in a file, as a sweep leaves them."""
    name = f"runs/{record['run']}/predictions.npz"
    (folder / name).parent.mkdir(parents=True)
    others = {f"test_{column}": np.array(values) for column, values in more.items()}
    np.savez_compressed(folder / name, test=np.array(test), test_targets=np.array(targets), **others)
    return {**record, "predictions": name}


def cells(table: Table, *names: str) -> dict[str, str]:
    """Header -> cell of the line that begins with these names."""
    lines = [line for line in table.lines if tuple(line[: len(names)]) == names]
    assert len(lines) == 1, names
    return dict(zip(table.header, lines[0]))
