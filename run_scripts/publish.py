"""Write the records of runs for others: what each run was and what came of it, and nothing of its machine.

    python -m run_scripts.publish results/short --out run_scripts/results/short.jsonl

FILE gets a line of JSON for each run, and python -m run_scripts.report FILE reads it like the folder of a sweep. A line
has the predicted and true class of each test example, but no predicted scores, commands, logs, data or checkpoints. Of
paths it has the last two parts. Runs of supplementary training are in RESULTS/supplementary: publish that folder too.
FILE keeps runs that RESULTS lacks, and those that finished in FILE and failed in RESULTS. So it can be written while a
sweep is at work, and from several folders.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from preprocess.errors import InputError, command_line
from preprocess.flags import named_path
from preprocess.writing import check_output, check_replaces_nothing, write_text

from .report.records import IDENTITY, KNOWN, OUTCOME, PROMPT, Run, file_within, has_finished, read_results
from .run.records import FILE, packed_classes, read_records, results_file

KEPT = (  # in this order; nothing else is published
    *("run", "row", "task", "method", "arch", "setting", "k", "seed", "lr", "selection", "dev_examples"),
    *("position", "supplementary_position", "supplementary", "prompt_length", "batch_size", "max_epoch", "max_update"),
    *("warm_up", "given_options", "source_task", "source_run", "metric", "protocol", "backbone", "data_sha256"),
    *("pairs", "init_prompts_from", "init_head_from", "dev", "test", "scores", "examples", "transfer", "dev_curve"),
    *("best_epoch", "best_update", "trainable", "seconds", "seconds_per_update", "seconds_per_prediction", "peak_mib"),
    *("hardware", "status", "reason", "read_sha256", "versions", "git", "finished", "test_classes"),
)
ALWAYS = {*IDENTITY, *OUTCOME, *PROMPT}  # also where they are null
EXACT = {"lr", "warm_up"}  # which were asked for, and are no scores
DIGITS = 8  # of a score: enough for every report to say the same


def published(run: Run) -> Run:
    """Return the part of a record that is for others."""
    kept = [name for name in KEPT if run.get(name) is not None or (name in ALWAYS and name in run)]
    return {name: run[name] if name in EXACT else without_places(run[name]) for name in kept}


def with_classes(run: Run, folder: Path) -> Run:
    """Return the run with the classes of its test examples, where it has left its predictions in the sweep's folder."""
    path = folder / (run.get("predictions") or "")  # no predictions: the folder itself
    known = KNOWN[run["task"]]
    if known.regression or known.by_choice or not file_within(folder, path):
        return run
    with np.load(path, allow_pickle=False) as arrays:
        return {**run, "test_classes": packed_classes(arrays["test"], arrays["test_targets"])}


def without_places(value: Any) -> Any:
    """Return a value without places of this machine, and scores without the noise of their last digits."""
    if isinstance(value, dict):
        return {name: without_places(each) for name, each in value.items()}
    if isinstance(value, list):
        return [without_places(each) for each in value]
    if isinstance(value, float):
        return round(value, DIGITS)
    return ",".join(map(without_place, value.split(","))) if isinstance(value, str) else value


def without_place(word: str) -> str:
    """Turn --option=/home/me/a/b.pt into --option=a/b.pt."""
    option, equals, path = word.rpartition("=")
    return f"{option}{equals}{'/'.join(Path(path).parts[-2:])}" if path.startswith(("/", "~")) else word


@command_line("run_scripts")
def main(argv: Sequence[str] | None = None) -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m run_scripts.publish", description=__doc__, formatter_class=layout)
    add = parser.add_argument
    add("results", metavar="RESULTS", type=named_path, help="the folder of a sweep, or its results.jsonl")
    add("--out", metavar="FILE", type=named_path, required=True, help="run_scripts/results/NAME.jsonl")
    args = parser.parse_args(argv)
    if args.out.suffix != ".jsonl":
        raise InputError(f"--out {args.out}: name a file that ends with .jsonl")
    check_replaces_nothing(args.out, "--out", {"RESULTS": [results_file(args.results)]})
    if args.out.name == FILE and args.out.exists():  # the commands and predictions of a sweep would be lost
        raise InputError(f"--out {args.out} exists, and a sweep keeps its runs under that name: name another")
    check_output(args.out, "--out")
    results = read_results(args.results)
    lines = {run["run"]: run for run in read_records(args.out)}  # those that FILE has
    for run in (*results.runs, *results.continued, *results.supplementary):
        before = lines.get(run["run"], {})
        if has_finished(run) or before.get("status") != "done":
            # keep classes whose predictions are gone, but not classes of an earlier run
            classes = before.get("test_classes") if before.get("finished") == run.get("finished") else None
            lines[run["run"]] = published({"test_classes": classes, **with_classes(run, results.folder)})
    write_text(args.out, "".join(f"{json.dumps(run, separators=(',', ':'))}\n" for run in lines.values()))
    print(f"{args.out}: {len(lines)} runs", file=sys.stderr)


if __name__ == "__main__":
    main()
