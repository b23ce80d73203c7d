"""A submission to GLUE or SuperGLUE: ``python -m run_scripts.submit glue --runs RESULTS --out submission.zip``.

They take a zip archive with a file for each test set. Sources. Names of files and labels: the toolkit of the
benchmarks' authors, nyu-mll/jiant at 00b121b, jiant/evaluate.py ("exact file names per task required by the GLUE
evaluation server"), and the T5 authors' script for submissions, which agree. Numbers of examples: huggingface/datasets
at 0401021, datasets/glue/README.md and datasets/super_glue/README.md. All files or none, and the sample:
keras-team/keras-hub at 63b7e4b, examples/glue_benchmark/README.md. The model of MNLI for AX: the same README of GLUE.
The model of RTE for SuperGLUE's diagnostics, and that all its files are wanted: its FAQ as russiansuperglue.com/faq
repeats it.
"""

from __future__ import annotations

import argparse
import json
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_idpg.inference.folder import SplitPredictions, load_on_folder, predict_split
from fairseq_idpg.tasks.folder import preprocess_facts
from preprocess.data_folder import DataFolder, check_split
from preprocess.errors import InputError, command_line
from preprocess.flags import named_path, positive
from preprocess.questions import Questions, question_file
from preprocess.tasks import TASKS, Task
from preprocess.writing import check_output, new_file

from .report.choice import Choice, Score, add_choice_options, check_row, take_runs
from .report.records import Results, Run, has_finished, read_results
from .report.render import Table, terminal
from .report.scores import vote
from .run.perform import numbered, quiet
from .run.records import BEST_CHECKPOINT, run_folder

ABOUT = """A submission to GLUE or SuperGLUE out of the runs in RESULTS.

Each test set is predicted with the checkpoints of all seeds at the learning rate with the best mean dev score, and
their vote is written: what most say, or the mean of their scores."""

# --- what the benchmarks take -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sheet:
    """A file of answers.

    ``examples``: of the test set, or its questions, where one answer is chosen of each; ``of``: the task whose model
    answers it; ``data``: the name of its binarized folder, without ``-bin``; by default the task's.
    """

    file: str
    examples: int
    of: str
    data: str = ""
    split: str = "test"

    @property
    def task(self) -> Task:
        return TASKS[self.of]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark's name, its files, and what it says of incomplete submissions."""

    title: str
    sheets: tuple[Sheet, ...]
    rule: str


BENCHMARKS = {
    "glue": Benchmark(
        "GLUE",
        (
            Sheet("CoLA.tsv", 1063, "CoLA"),
            Sheet("SST-2.tsv", 1821, "SST-2"),
            Sheet("MRPC.tsv", 1725, "MRPC"),
            Sheet("STS-B.tsv", 1379, "STS-B"),
            Sheet("QQP.tsv", 390_965, "QQP"),
            Sheet("MNLI-m.tsv", 9796, "MNLI"),
            Sheet("MNLI-mm.tsv", 9847, "MNLI", split="test1"),
            Sheet("QNLI.tsv", 5463, "QNLI"),
            Sheet("RTE.tsv", 3000, "RTE"),
            Sheet("WNLI.tsv", 146, "WNLI"),
            Sheet("AX.tsv", 1104, "MNLI", data="AX"),
        ),
        "GLUE's site fails submissions without all files: add those of its sample, gluebenchmark.com/assets/CBOW.zip",
    ),
    "superglue": Benchmark(
        "SuperGLUE",
        (
            Sheet("BoolQ.jsonl", 3245, "BoolQ"),
            Sheet("CB.jsonl", 250, "CB"),
            Sheet("COPA.jsonl", 500, "COPA"),
            Sheet("MultiRC.jsonl", 9693, "MultiRC"),
            Sheet("ReCoRD.jsonl", 10_000, "ReCoRD"),
            Sheet("RTE.jsonl", 3000, "RTE", data="RTE-SuperGLUE"),
            Sheet("WiC.jsonl", 1400, "WiC"),
            Sheet("WSC.jsonl", 146, "WSC"),
            Sheet("AX-b.jsonl", 1104, "RTE", data="AX-b"),
            Sheet("AX-g.jsonl", 356, "RTE", data="AX-g"),
        ),
        "SuperGLUE's site asks for all files: add those of its sample, super.gluebenchmark.com/faq",
    ),
}

Number = tuple[int, ...]  # of an example; of an answer of MultiRC: the passage's, the question's, its own
MULTIRC = "MultiRC.jsonl"
LABELS: dict[str, Callable[[str], str | int]] = {"COPA.jsonl": int, "WSC.jsonl": str.capitalize}


def text_of(file: str, numbers: Sequence[Number], answers: Sequence[str]) -> str:
    """The file with an answer to each number.

    GLUE: a table with the header ``index  prediction``; SuperGLUE: JSON objects with ``idx`` and ``label``, which are
    texts (also "true" and "false", of WSC "True" and "False"), but for MultiRC and the choices of COPA.
    """
    pairs = list(zip(numbers, answers, strict=True))
    if file.endswith(".tsv"):
        return "index\tprediction\n" + "".join(f"{number}\t{answer}\n" for (number,), answer in pairs)
    label = LABELS.get(file, str)
    lines = passages(pairs) if file == MULTIRC else [{"idx": idx, "label": label(answer)} for (idx,), answer in pairs]
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def passages(pairs: Iterable[tuple[Number, str]]) -> list[dict]:
    """MultiRC: a line for each passage, which holds its questions, which hold their answers.

    Source: the sample submission as jiant-dev/jiant-dev#108 quotes it.
    """
    found: dict[int, dict[int, list[dict]]] = {}
    for (passage, question, number), answer in pairs:
        answers = found.setdefault(passage, {}).setdefault(question, [])
        answers.append({"idx": number, "label": int(answer)})
    lines = []
    for passage, questions in found.items():
        listed = [{"idx": question, "answers": answers} for question, answers in questions.items()]
        lines.append({"idx": passage, "passage": {"questions": listed}})
    return lines


# --- which runs answer which test set ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A file of answers that can be made.

    ``score``: the runs that vote; ``data``: a binarized folder with the test set; ``numbers``: the benchmark's own, of
    each example or question; ``questions``: of which one example is to be chosen each.
    """

    sheet: Sheet
    score: Score
    checkpoints: list[Path]
    data: DataFolder
    numbers: list[Number]
    questions: Questions | None


def scores_of(results: Results, benchmark: Benchmark, args: argparse.Namespace) -> tuple[str, dict[str, Score]]:
    """Return the row to submit, and of each task its runs at the learning rate with the best mean dev score."""
    tasks = tuple(dict.fromkeys(sheet.of for sheet in benchmark.sheets))
    there = [run["row"] for run in results.runs if run["k"] is None and run["task"] in tasks and has_finished(run)]
    rows = list(dict.fromkeys(there))
    if args.row is not None and rows:
        check_row("--row", args.row, rows)
    elif len(rows) > 1:
        raise InputError(f"{results.place} holds the rows {', '.join(rows)}: give the one to submit with --row")
    scope = take_runs(results, Choice.of(args, tasks=tasks, rows=(args.row,) if args.row else ()), (None,))
    ((row, scores),) = scope.rows("row").items()
    return row, dict(scores)


def parts_of(
    benchmark: Benchmark, scores: dict[str, Score], results: Results, place: Path | None
) -> tuple[list[Part], dict[str, str]]:
    """Return the files that can be made, and those that cannot -> why; ``place`` holds the data, if it has moved."""
    parts, missing = [], {}
    for sheet in benchmark.sheets:
        score = scores.get(sheet.of)
        if score is None:
            missing[sheet.file] = f"no finished run of {sheet.of}"
            continue
        own = Path(score.runs[0]["data"])
        if place is not None:
            folder = place / f"{sheet.data or sheet.of}-bin"
        else:  # the task's own folder is where the runs had it; the other test sets lie beside it
            folder = own.parent / f"{sheet.data}-bin" if sheet.data else own
        checkpoints = [checkpoint_of(results, run) for run in score.runs]
        if lack := lack_of(sheet, folder):
            remedy = f"make it with python -m preprocess {sheet.data or sheet.of} --raw DIR --out {folder.parent}"
            missing[sheet.file] = f"{folder} {lack}, {remedy} --overwrite"
            continue
        data = DataFolder(folder)
        questions = data.questions(sheet.split) if sheet.task.by_choice else None
        parts.append(Part(sheet, score, checkpoints, data, numbers_of(sheet, data, questions), questions))
    return parts, missing


def checkpoint_of(results: Results, run: Run) -> Path:
    """Return where a sweep leaves the checkpoint of a run; raise InputError where it is not there."""
    path = run_folder(results.folder, run["run"]) / BEST_CHECKPOINT
    if not path.is_file():
        what = f"{path} of {run['row']} on {run['task']}, lr {run['lr']:g}, seed {run['seed']} is not there"
        remedy = "sweep again without its line in results.jsonl, a whole model with keep_whole_models: true"
        raise InputError(f"{what}: {remedy}")
    return path


def lack_of(sheet: Sheet, folder: Path) -> str | None:
    """What a folder lacks of the test set; None if it has all."""
    if not folder.is_dir():
        return "does not exist"
    data, recorded = DataFolder(folder), preprocess_facts(str(folder)).task
    if recorded is not None and recorded.lower() != (sheet.data or sheet.of).lower():
        return f"is of {recorded}"
    if sheet.split not in data.splits or data.numbers(sheet.split) is None:
        return f"has no split {sheet.split} with number/{sheet.split}.txt"
    if sheet.task.by_choice and data.questions(sheet.split) is None:
        return f"has no {question_file(sheet.split)}"
    return None


def numbers_of(sheet: Sheet, data: DataFolder, questions: Questions | None) -> list[Number]:
    """Return the numbers of all examples in the order of the data, or of all questions in the order of theirs.

    Raise InputError where they are not those of the whole test set, each once.
    """
    numbers, answers = data.numbers(sheet.split) or [], check_split(data, sheet.split)
    if questions is not None and len(numbers) == answers:
        numbers = [number for _, number in sorted(set(zip(questions.number.tolist(), numbers)))]
        answers = questions.count
    arity = 3 if sheet.file == MULTIRC else 1
    counts = {len(numbers), len(set(numbers)), answers}
    if counts != {sheet.examples} or any(len(number) != arity for number in numbers):
        raise InputError(
            f"{data.path} split {sheet.split} has {len(set(numbers)):,} different numbers of {answers:,} examples or "
            f"questions, and {sheet.file} takes {sheet.examples:,} answers: preprocess the benchmark's own test file, "
            "with --strict"
        )
    return numbers


# --- their answers ----------------------------------------------------------------------------------------------------


def answers_of(part: Part, args: argparse.Namespace) -> list[str]:
    """Return the vote on a test set."""
    moved = {"backbone": args.backbone_file} if args.backbone_file else {}
    task, found = part.sheet.task, []
    with quiet():
        for checkpoint in part.checkpoints:
            model, loaded = load_on_folder(str(checkpoint), str(part.data.path), args.cpu, **moved)
            found.append(predict_split(model, loaded, part.sheet.split, args.batch_size, progress=True))
            names = found[-1].label_names
            if sorted(names) != sorted(task.labels):
                answers, taken = (", ".join(labels) or "scores" for labels in (names, task.labels))
                remedy = f"submit runs on the data of python -m preprocess {task.name}"
                raise InputError(f"{checkpoint} answers {answers}, and {task.name} takes {taken}: {remedy}")
    return voted(task, found, part.questions)


def voted(task: Task, found: Sequence[SplitPredictions], questions: Questions | None = None) -> list[str]:
    """The vote of several models, as the paper has it (Table 7): what most say, or the mean of their scores.

    Classes are those of the same name, in whatever order models have them. Scores are in the task's own scale, and
    within it. With ``questions`` it is a choice of one example of each, in the order of the questions' numbers: the
    example's text, or its place in the question, counted from 0.
    """
    if questions is not None:
        choice = vote([numbered(each, questions)[0] for each in found], False, questions)  # 1 for the chosen examples
        order = np.argsort(questions.number, kind="stable")
        places = np.flatnonzero(choice[order])
        if questions.texts is not None:
            return [questions.texts[row] for row in order[places]]
        starts = np.unique(questions.number[order], return_index=True)[1]
        return [str(place) for place in places - starts]
    if task.regression:
        scores = np.clip(vote([each.answers for each in found], True) * task.scale, 0, task.scale)
        return [f"{score:.6f}" for score in scores]
    names = np.array(sorted(task.labels))  # among equally many votes the first wins
    classes = [np.searchsorted(names, np.array(each.label_names))[each.answers] for each in found]
    return names[vote(classes, False)].tolist()


# --- the command ------------------------------------------------------------------------------------------------------


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
    add("--batch-size", type=positive, default=64, metavar="N", help="default: 64")
    add("--cpu", action="store_true", help="do not use a GPU")
    runs = made.add_argument_group("which runs, where RESULTS holds several kinds")
    add_choice_options(runs)
    runs.add_argument("--prompt-length", type=int, metavar="T", help="default: the paper's")
    return made


@command_line("run_scripts")
def main(argv: Sequence[str] | None = None) -> None:
    args = parser().parse_args(argv)
    check_output(args.out, "--out")
    benchmark, results = BENCHMARKS[args.benchmark], read_results(args.runs)
    row, scores = scores_of(results, benchmark, args)
    parts, missing = parts_of(benchmark, scores, results, args.data)
    if missing and not (args.incomplete and parts):
        files = "; ".join(f"{file}: {why}" for file, why in missing.items())
        remedy = "" if args.incomplete else " (--incomplete leaves them out)"
        lacking = f"{len(missing)} of {len(benchmark.sheets)} files of {benchmark.title}"
        raise InputError(f"{lacking} cannot be made of {row} in {results.place}{remedy}: {files}")
    with new_file(args.out) as work, zipfile.ZipFile(work, "w") as archive:
        for part in parts:
            text = text_of(part.sheet.file, part.numbers, answers_of(part, args))
            # without the time, so that the same answers give the same bytes
            archive.writestr(zipfile.ZipInfo(part.sheet.file), text, zipfile.ZIP_DEFLATED)
    lines = [
        [
            *(part.sheet.file, part.sheet.of, f"{len(part.numbers):,}", f"{part.score.lr:g}"),
            *(", ".join(map(str, part.score.seeds)), f"{part.score.dev:.1f}"),
        ]
        for part in parts
    ]
    notes = [f"not in it: {file}: {why}" for file, why in missing.items()]
    header = ["file", "model of", "answers", "lr", "seeds", "dev"]
    title = f"{args.out}: {benchmark.title} by {row}"
    print(terminal(Table(title, 2, header, [lines], notes + [benchmark.rule] * bool(notes))), end="")


if __name__ == "__main__":
    main()
