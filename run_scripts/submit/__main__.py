"""A submission to GLUE or SuperGLUE: ``python -m run_scripts.submit glue --runs RESULTS --out submission.zip``."""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from preprocess.errors import InputError, command_line
from preprocess.flags import named_path
from preprocess.writing import check_output, new_file

from ..report.choice import Choice, add_choice_options
from ..report.records import Results, read_results
from ..report.render import Table, terminal
from .answers import answer
from .formats import text_of
from .plan import Plan, checkpoint_of, plan, row_of, scores_of, together
from .rules import BENCHMARKS, Benchmark

ABOUT = """A submission to GLUE or SuperGLUE out of the runs in RESULTS.

Each test set is predicted with the checkpoints of all seeds at the learning rate with the best mean dev score, and
their vote is written: what most say, or the mean of their scores."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "python -m run_scripts.submit", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    add("benchmark", choices=list(BENCHMARKS))
    add("--runs", required=True, metavar="RESULTS", type=named_path, help="the folder of a sweep")
    add("--out", required=True, metavar="FILE.zip", type=named_path)
    add("--row", metavar="ROW", help="the system to submit, where RESULTS holds several rows")
    add("--incomplete", action="store_true", help="leave out the files for which something is missing")
    add("--data", metavar="DIR", type=named_path, help="folder of TASK-bin (default: where the data of the runs was)")
    add("--backbone-file", metavar="FILE", help="where the backbone is now, if it has moved")
    add("--batch-size", type=int, default=64, metavar="N", help="default: 64")
    add("--cpu", action="store_true", help="do not use a GPU")
    runs = made.add_argument_group("which runs, where RESULTS holds several kinds")
    add_choice_options(runs)
    runs.add_argument("--prompt-length", type=int, metavar="T", help="default: the paper's")
    return made


def refuse(args: argparse.Namespace) -> None:
    """Refuses options that cannot work, before anything is read."""
    if args.out.suffix != ".zip":
        raise InputError(f"--out {args.out}: name a file that ends with .zip")
    if args.batch_size < 1:
        raise InputError(f"--batch-size {args.batch_size} is no size: give 1 or more")
    check_output(args.out, "--out")


def choice_of(args: argparse.Namespace, benchmark: Benchmark, row: str) -> Choice:
    return Choice.of(args, tasks=benchmark.tasks, rows=(row,))


def check_complete(planned: Plan, benchmark: Benchmark, results: Results, row: str, incomplete: bool) -> None:
    """Raises InputError where files are missing, unless they may, or all are."""
    if not planned.missing or (incomplete and planned.parts):
        return
    files = "; ".join(f"{file}: {why}" for file, why in planned.missing.items())
    remedy = "" if incomplete else " (--incomplete leaves them out)"
    lacking = f"{len(planned.missing)} of {len(benchmark.sheets)} files of {benchmark.title}"
    raise InputError(f"{lacking} cannot be made of {row} in {results.place}{remedy}: {files}")


def texts(planned: Plan, results: Results, args: argparse.Namespace) -> dict[str, str]:
    """The files of answers by name."""
    moved = {"backbone": args.backbone_file} if args.backbone_file else {}
    made = {}
    for parts in together(planned.parts):
        checkpoints = [checkpoint_of(results, run) for run in parts[0].score.runs]
        for part, answers in zip(parts, answer(parts, checkpoints, args.batch_size, args.cpu, **moved)):
            made[part.sheet.file] = text_of(part.sheet.file, part.numbers, answers)
    return {part.sheet.file: made[part.sheet.file] for part in planned.parts}


def write_archive(path: Path, files: Mapping[str, str]) -> None:
    """A zip archive without folders; the same files give the same bytes."""
    with new_file(path) as work, zipfile.ZipFile(work, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)


def summary(planned: Plan, benchmark: Benchmark, out: Path, row: str) -> Table:
    """What each file was made of, and what is left to do."""
    lines = [
        [
            *(part.sheet.file, part.sheet.of, f"{len(part.numbers):,}", f"{part.score.lr:g}"),
            *(", ".join(map(str, part.score.seeds)), f"{part.score.dev:.1f}"),
        ]
        for part in planned.parts
    ]
    notes = [f"not in it: {file}: {why}" for file, why in planned.missing.items()]
    if notes:
        notes.append(benchmark.rule)
    header = ["file", "model of", "answers", "lr", "seeds", "dev"]
    return Table(f"{out}: {benchmark.title} by {row}", 2, header, [lines], notes)


@command_line("run_scripts")
def main(argv: Sequence[str] | None = None) -> None:
    args = parser().parse_args(argv)
    refuse(args)
    benchmark, results = BENCHMARKS[args.benchmark], read_results(args.runs)
    row = row_of(results, benchmark, args.row)
    planned = plan(benchmark, scores_of(results, choice_of(args, benchmark, row)), results, args.data)
    check_complete(planned, benchmark, results, row, args.incomplete)
    write_archive(args.out, texts(planned, results, args))
    print(terminal(summary(planned, benchmark, args.out, row)), end="")


if __name__ == "__main__":
    main()
