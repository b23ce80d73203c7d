"""Write a submission to GLUE or SuperGLUE out of the runs in RESULTS.

Each test set is predicted with the checkpoints of all seeds at the learning rate with the best mean dev score, and
their vote is written: what most say, or the mean of their scores (paper, Table 7).

    python -m run_scripts.submit glue --runs results/glue --row m-idpg-phm --out glue.zip --dry-run

The benchmarks take a zip archive with a file for each test set. Names of files and labels are those of
nyu-mll/jiant at 00b121b, jiant/evaluate.py; numbers of examples those of huggingface/datasets at 0401021, datasets/glue
and datasets/super_glue; the lines of MultiRC those of jiant-dev/jiant-dev#108. MNLI's model answers GLUE's diagnostics
(the same README), RTE's SuperGLUE's (its FAQ).
"""

from __future__ import annotations

import argparse
import json
import zipfile
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from preprocess.data_folder import DataFolder, check_split
from preprocess.errors import InputError, command_line, escaped
from preprocess.flags import aligned, named_path, positive
from preprocess.questions import Questions
from preprocess.tasks import TASKS, Task
from preprocess.writing import check_output, new_file

from .report.choice import Choice, Score, add_choice_options, take_runs
from .report.records import cell_label, read_results
from .report.scores import vote
from .run.records import BEST_CHECKPOINT, run_folder

if TYPE_CHECKING:  # --help does without torch, which takes seconds
    from fairseq_idpg.inference.folder import SplitPredictions


class Sheet(NamedTuple):
    """A file of answers to one test set."""

    file: str
    examples: int  # of the test set; or its questions, where one answer is chosen of each
    model_of: str  # the task whose model answers it
    data: str = ""  # the name of its binarized folder, without -bin; by default the task's
    split: str = "test"


GLUE = {"CoLA": 1063, "SST-2": 1821, "MRPC": 1725, "STS-B": 1379, "QQP": 390_965, "QNLI": 5463, "RTE": 3000}
SUPER_GLUE = {"BoolQ": 3245, "CB": 250, "COPA": 500, "MultiRC": 9693, "ReCoRD": 10_000, "WiC": 1400, "WSC": 146}
SHEETS = {
    "glue": (
        *(Sheet(f"{task}.tsv", examples, task) for task, examples in {**GLUE, "WNLI": 146}.items()),
        Sheet("MNLI-m.tsv", 9796, "MNLI"),
        Sheet("MNLI-mm.tsv", 9847, "MNLI", split="test1"),
        Sheet("AX.tsv", 1104, "MNLI", data="AX"),
    ),
    "superglue": (
        *(Sheet(f"{task}.jsonl", examples, task) for task, examples in SUPER_GLUE.items()),
        Sheet("RTE.jsonl", 3000, "RTE", data="RTE-SuperGLUE"),
        Sheet("AX-b.jsonl", 1104, "RTE", data="AX-b"),
        Sheet("AX-g.jsonl", 356, "RTE", data="AX-g"),
    ),
}
ALL_FILES = {  # what the sites say of a submission without all of them
    "glue": "GLUE's site fails it: add those of its sample, gluebenchmark.com/assets/CBOW.zip",
    "superglue": "SuperGLUE's site asks for all: add those of its sample, super.gluebenchmark.com/faq",
}
LABELS: dict[str, Callable[[str], str | int]] = {"COPA.jsonl": int, "WSC.jsonl": str.capitalize}


def text_of(file: str, numbers: Sequence[tuple[int, ...]], answers: Sequence[str]) -> str:
    """Return the file with an answer to each number, of MultiRC to the passage's, the question's and the answer's.

    GLUE: a table with the header ``index  prediction``; SuperGLUE: JSON objects with ``idx`` and ``label``. Labels are
    texts (also "true" and "false", of WSC "True" and "False"), but numbers for the choices of COPA and for MultiRC,
    which has a line for each passage that holds its questions, which hold their answers.
    """
    pairs = list(zip(numbers, answers, strict=True))
    if file.endswith(".tsv"):
        return "index\tprediction\n" + "".join(f"{number}\t{answer}\n" for (number,), answer in pairs)
    lines: list[dict] = []
    if file == "MultiRC.jsonl":
        for passage, in_passage in groupby(pairs, lambda pair: pair[0][0]):
            questions = [
                {"idx": question, "answers": [{"idx": number[2], "label": int(answer)} for number, answer in group]}
                for question, group in groupby(in_passage, lambda pair: pair[0][1])
            ]
            lines.append({"idx": passage, "passage": {"questions": questions}})
    else:
        label = LABELS.get(file, str)
        lines += [{"idx": number, "label": label(answer)} for (number,), answer in pairs]
    return "".join(f"{json.dumps(line)}\n" for line in lines)


class Part(NamedTuple):
    """A file of answers that can be made."""

    sheet: Sheet
    score: Score  # the runs that vote
    checkpoints: list[Path]
    data: DataFolder
    numbers: list[tuple[int, ...]]  # the benchmark's, of each example or question
    questions: Questions | None  # of which one example is to be chosen each


def find_part(sheet: Sheet, score: Score | None, results: Path, place: Path | None) -> Part | str:
    """Return how to make a file, or why it cannot be made; ``place`` holds the data, if it has moved."""
    from fairseq_idpg.tasks.folder import preprocess_facts

    if score is None:
        return f"no finished run of {sheet.model_of}"
    checkpoints = [run_folder(results, run["run"]) / BEST_CHECKPOINT for run in score.runs]
    for run, checkpoint in zip(score.runs, checkpoints):
        if not checkpoint.is_file():
            remedy = "remove its line from results.jsonl and sweep again, a whole model with keep_whole_models: true"
            return f"{checkpoint} of {cell_label(run)}, seed {run['seed']} is not there: {remedy}"
    # The task's folder is where the runs had it; the other test sets lie beside it.
    trained_on, name = Path(score.runs[0]["data"]), sheet.data or sheet.model_of
    folder = trained_on if place is None and not sheet.data else (place or trained_on.parent) / f"{name}-bin"
    is_of_name = folder.is_dir() and (preprocess_facts(str(folder)).task or name).lower() == name.lower()
    data = DataFolder(folder) if is_of_name else None
    numbers = data.numbers(sheet.split) if data else None
    questions = data.questions(sheet.split) if data and TASKS[sheet.model_of].by_choice else None
    if not data or numbers is None or (questions is None and TASKS[sheet.model_of].by_choice):
        remedy = f"make it with python -m preprocess {name} --raw DIR --out {folder.parent} --overwrite"
        return f"{folder} has no test set of {name} with its numbers, {remedy}"
    examples = check_split(data, sheet.split)
    if questions is not None and len(numbers) == examples:  # of each question one number, in the order of theirs
        numbers = [number for _, number in sorted(set(zip(questions.number.tolist(), numbers)))]
        examples = questions.count
    if {len(numbers), len(set(numbers)), examples} != {sheet.examples}:
        found = f"{folder} split {sheet.split} has {len(set(numbers)):,} numbers of {examples:,} examples or questions"
        wanted = f"{sheet.file} takes {sheet.examples:,} answers"
        raise InputError(f"{found}, and {wanted}: preprocess the benchmark's test file, with --strict")
    return Part(sheet, score, checkpoints, data, numbers, questions)


def answers_of(part: Part, args: argparse.Namespace) -> list[str]:
    from fairseq_idpg.inference.folder import load_on_folder, predict_split

    moved = {"backbone": args.backbone_file} if args.backbone_file else {}
    task, predictions = TASKS[part.sheet.model_of], []
    for checkpoint in part.checkpoints:
        model, loaded = load_on_folder(str(checkpoint), str(part.data.path), args.cpu, **moved)
        predictions.append(predict_split(model, loaded, part.sheet.split, args.batch_size, progress=True))
        if sorted(names := predictions[-1].label_names) != sorted(task.labels):
            answers, taken = (", ".join(labels) or "scores" for labels in (names, task.labels))
            remedy = f"submit runs on the data of python -m preprocess {task.name}"
            raise InputError(f"{checkpoint} answers {answers}, and {task.name} takes {taken}: {remedy}")
    return voted(task, predictions, part.questions)


def voted(task: Task, predictions: Sequence[SplitPredictions], questions: Questions | None = None) -> list[str]:
    """Return the vote of several models; scores are in the task's scale, and within it.

    With ``questions`` one example of each is chosen, in the order of the questions' numbers: the example's text, or its
    place in the question, counted from 0.
    """
    if task.regression:
        scores = np.clip(vote([each.answers for each in predictions], True) * task.scale, 0, task.scale)
        return [f"{score:.6f}" for score in scores]
    if questions is None:
        names = np.array(sorted(task.labels))  # among equally many votes the first wins
        classes = [np.searchsorted(names, np.array(each.label_names))[each.answers] for each in predictions]
        return names[vote(classes, False)].tolist()
    from .run.perform import numbered

    number = questions.number
    rows = np.flatnonzero(vote([numbered(each, questions)[0] for each in predictions], False, questions))
    rows = rows[np.argsort(number[rows])]
    if questions.texts is not None:
        return [questions.texts[row] for row in rows]
    return [str(np.count_nonzero(number[:row] == number[row])) for row in rows]


def make_parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m run_scripts.submit", description=__doc__, formatter_class=layout)
    add = parser.add_argument
    add("benchmark", choices=list(SHEETS))
    add("--runs", required=True, metavar="RESULTS", type=named_path, help="the folder of a sweep")
    add("--out", required=True, metavar="FILE.zip", type=named_path, help="the archive")
    add("--row", "--rows", dest="rows", nargs=1, metavar="ROW", help="the system, where RESULTS holds several rows")
    add("--incomplete", action="store_true", help="leave out the files for which something is missing")
    add("--dry-run", action="store_true", help="check everything and show the files, predict and write nothing")
    add("--data", metavar="DIR", type=named_path, help="folder of TASK-bin (default: where the data of the runs was)")
    add("--backbone-file", metavar="FILE", help="where the backbone is now, if it has moved")
    add("--batch-size", type=positive, default=64, metavar="N", help="default: 64")
    add("--cpu", action="store_true", help="do not use a GPU")
    runs = parser.add_argument_group("which runs, where RESULTS holds several kinds")
    add_choice_options(runs)
    runs.add_argument("--prompt-length", type=int, metavar="T", help="default: the paper's")
    return parser


@command_line("run_scripts")
def main(argv: Sequence[str] | None = None) -> None:
    args = make_parser().parse_args(argv)
    check_output(args.out, "--out")
    sheets, results = SHEETS[args.benchmark], read_results(args.runs)
    choice = Choice.of(args, tasks=tuple(dict.fromkeys(sheet.model_of for sheet in sheets)))
    scores = take_runs(results, choice, (None,)).rows("row")
    if len(scores) > 1:
        raise InputError(f"{results.place} holds the rows {', '.join(scores)}: give the one to submit with --row")
    ((row, of_task),) = scores.items()
    found = {sheet.file: find_part(sheet, of_task.get(sheet.model_of), results.folder, args.data) for sheet in sheets}
    parts = [part for part in found.values() if isinstance(part, Part)]
    missing = [f"{file}: {part}" for file, part in found.items() if isinstance(part, str)]
    if missing and not (args.incomplete and parts):
        remedy = "" if args.incomplete else " (--incomplete leaves them out)"
        lacking = f"{len(missing)} of {len(sheets)} files of {args.benchmark}"
        raise InputError(f"{lacking} cannot be made of {row} in {results.place}{remedy}: {'; '.join(missing)}")
    rows = [["file", "model of", "answers", "lr", "seeds", "dev"]]
    for sheet, score, _, _, numbers, _ in parts:
        seeds = ", ".join(map(str, score.seeds))
        rows.append([sheet.file, sheet.model_of, f"{len(numbers):,}", f"{score.lr:g}", seeds, f"{score.dev:.1f}"])
    lines = [f"{args.out}: {args.benchmark} by {row}", "", *aligned(rows, (0, 1))]
    notes = [*(f"not in it: {reason}" for reason in missing), ALL_FILES[args.benchmark]] if missing else []
    print("\n".join([*lines, *map(escaped, notes)]), flush=True)
    if not args.dry_run:
        from .run.perform import quiet

        with quiet(), new_file(args.out) as work, zipfile.ZipFile(work, "w") as archive:
            for part in parts:
                text = text_of(part.sheet.file, part.numbers, answers_of(part, args))
                # without the time, so that the same answers give the same bytes
                archive.writestr(zipfile.ZipInfo(part.sheet.file), text, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
