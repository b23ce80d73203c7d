"""One run with the paper's settings, from a command line: ``python -m run_scripts.train RTE --method m-idpg-phm ...``.

The scripts run_scripts/rte.sh and so on call it. Options that it does not know go to fairseq-train.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Sequence

from preprocess.errors import DataError
from preprocess.tasks import find_task

from .commands import learning_rates
from .experiment import SELECTIONS, Experiment
from .perform import perform
from .records import Record, RunError, append_record

REMEDIES = {
    "data": "make it with python -m preprocess TASK --raw DIR --out data, or give --data",
    "backbone": "get it with bash checkpoints/download.sh roberta.large, or give --backbone",
}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "run_scripts/TASK.sh",
        description="One run with the paper's settings. Options that are not listed go to fairseq-train.",
        allow_abbrev=False,
    )
    add = made.add_argument
    add("task", help=argparse.SUPPRESS)
    add("--method", default="m-idpg-phm", help="README lists them (default: m-idpg-phm)")
    add("--backbone", default="checkpoints/roberta.large/model.pt", metavar="FILE")
    add("--arch", default="roberta_idpg_large")
    add("--data", metavar="DIR", help="binarized folder (default: data/TASK-bin)")
    add("--lr", type=float, help="default: the first of the paper's grid")
    add("--seed", type=int, default=1)
    add("--k", type=int, help="few-shot: training examples, a new sample for each seed")
    add("--dev", type=int, help="examples held out of the training set (default: a tenth, at most 1,000)")
    add(
        "--selection",
        choices=SELECTIONS,
        default="clean",
        help="what the best checkpoint is chosen on: examples held "
        "out of the training set, or, as in the paper, the split that is reported",
    )
    add("--position", type=int, help="of the prompt (default: 0 for single sentences, 1 for pairs)")
    add("--supplementary-position", type=int, help="where it was while the backbone was trained on MNLI (for reports)")
    add("--init-prompts-from", metavar="FILE", help="keep the generator or prompts of this checkpoint")
    add("--init-head-from", metavar="FILE", help="keep its classification head")
    add("--supplementary", action="store_true", help="train the whole model, with prompts, as a backbone (A.4)")
    add("--batch-size", type=int, help="of an update, over all processes (default: 16, large tasks 32)")
    add("--max-epoch", type=int, help="default: 50, large tasks 10")
    add("--max-update", type=int)
    add("--row", default="", help="name in reports (default: the method)")
    add(
        "--results",
        type=Path,
        default=Path("results"),
        metavar="DIR",
        help="records and checkpoints (default: results)",
    )
    return made


def experiment_of(args: argparse.Namespace, options: Sequence[str]) -> Experiment:
    """The experiment of a command line.

    Raises:
        RunError: a file or folder is missing.
        DataError: the task is unknown.
    """
    chosen = {name: value for name, value in vars(args).items() if name not in ("results", "lr")}
    chosen["task"] = find_task(args.task).name
    chosen["data"] = args.data or f"data/{chosen['task']}-bin"
    experiment = absolute(Experiment(**chosen, lr=0.0, options=tuple(options)))
    return replace(experiment, lr=args.lr or learning_rates(experiment)[0])


def absolute(experiment: Experiment) -> Experiment:
    """The same with absolute paths.

    Raises:
        RunError: one of its files or folders is missing.
    """
    paths = {}
    for name in ("data", "backbone", "init_prompts_from", "init_head_from"):
        path = getattr(experiment, name)
        if path and not Path(path).exists():
            raise RunError(f"--{name.replace('_', '-')} {path} does not exist: {REMEDIES.get(name, 'give its path')}")
        paths[name] = path and str(Path(path).absolute())
    return replace(experiment, **paths)


def describe(record: Record) -> str:
    scores = ", ".join(f"{name} {value:.1f}" for name, value in record["scores"]["test"].items())
    return (
        f"{scores} (dev {record['dev']:.1f}, best epoch {record['best_epoch']}, {record['seconds']:.0f} s of training)"
    )


def main(argv: Sequence[str] | None = None) -> None:
    args, options = parser().parse_known_args(argv)
    try:
        experiment = experiment_of(args, options)
        record = perform(experiment, args.results, echo=True)
    except DataError as error:
        raise RunError(str(error)) from None
    append_record(args.results, record)
    print(
        f"{experiment}: {describe(record)}; checkpoint {args.results / 'runs' / record['run'] / 'checkpoint_best.pt'}"
    )


if __name__ == "__main__":
    sys.exit(main())
