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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_idpg.inference.folder import SplitPredictions, load_on_folder, predict_split
from fairseq_idpg.tasks.folder import preprocess_facts
from preprocess.data_folder import DataFolder
from preprocess.errors import InputError, command_line
from preprocess.flags import named_path, positive
from preprocess.questions import Questions, question_file
from preprocess.tasks import TASKS, Task
from preprocess.validation import check_split
from preprocess.writing import check_output, new_file

from .report.choice import Choice, RowScores, Score, add_choice_options, check_row, take_runs
from .report.records import Results, Run, has_finished, read_results
from .report.render import Table, terminal
from .report.scores import vote
from .run.evaluation import numbered, quiet
from .run.records import BEST_CHECKPOINT, run_folder

ABOUT = """A submission to GLUE or SuperGLUE out of the runs in RESULTS.

Each test set is predicted with the checkpoints of all seeds at the learning rate with the best mean dev score, and
their vote is written: what most say, or the mean of their scores."""

# --- what the benchmarks take -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sheet:
    """A file of answers.

    Attributes:
        file: its name in the archive.
        examples: of the test set; questions, where one answer is chosen of each.
        of: the task whose model answers it.
        data: the name of its binarized folder, without ``-bin``; by default the task's.
        split: of that folder.
    """

    file: str
    examples: int
    of: str
    data: str = ""
    split: str = "test"

    @property
    def task(self) -> Task:
        return TASKS[self.of]

    @property
    def folder(self) -> str:
        return f"{self.data or self.of}-bin"


@dataclass(frozen=True)
class Benchmark:
    """A benchmark's name, its files, and what it says of incomplete submissions."""

    title: str
    sheets: tuple[Sheet, ...]
    rule: str

    @property
    def tasks(self) -> tuple[str, ...]:
        """Those whose models answer something."""
        return tuple(dict.fromkeys(sheet.of for sheet in self.sheets))


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
        return "".join(f"{number}\t{answer}\n" for number, answer in [("index", "prediction"), *_plain(pairs)])
    lines = _passages(pairs) if file == MULTIRC else _records(pairs, LABELS.get(file, str))
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def _plain(pairs: Iterable[tuple[Number, str]]) -> Iterable[tuple[int, str]]:
    return ((number, answer) for (number,), answer in pairs)


def _records(pairs: Iterable[tuple[Number, str]], label: Callable[[str], str | int]) -> Iterable[dict]:
    return ({"idx": number, "label": label(answer)} for number, answer in _plain(pairs))


def _passages(pairs: Iterable[tuple[Number, str]]) -> Iterable[dict]:
    """MultiRC: a line for each passage, which holds its questions, which hold their answers.

    Source: the sample submission as jiant-dev/jiant-dev#108 quotes it.
    """
    passages: dict[int, dict[int, list[dict]]] = {}
    for (passage, question, number), answer in pairs:
        answers = passages.setdefault(passage, {}).setdefault(question, [])
        answers.append({"idx": number, "label": int(answer)})
    for passage, questions in passages.items():
        listed = [{"idx": question, "answers": answers} for question, answers in questions.items()]
        yield {"idx": passage, "passage": {"questions": listed}}


# --- which runs answer which test set ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A file of answers that can be made.

    Attributes:
        score: the runs that vote, at the learning rate with the best mean dev score.
        folder: a binarized folder with the test set.
        numbers: the benchmark's own, of each example or question.
        questions: of which one example is to be chosen each.
    """

    sheet: Sheet
    score: Score
    folder: Path
    numbers: list[Number]
    questions: Questions | None = None


@dataclass(frozen=True)
class Plan:
    """``missing``: files that cannot be made -> why."""

    parts: list[Part]
    missing: dict[str, str]


def row_of(results: Results, benchmark: Benchmark, row: str | None) -> str:
    """The row to submit: the one that was asked for, or the only one.

    Raises:
        InputError: there is no such row, or several and no choice among them.
    """
    runs = [run for run in results.runs if run["k"] is None and run["task"] in benchmark.tasks and has_finished(run)]
    rows = list(dict.fromkeys(run["row"] for run in runs))
    if not rows:
        raise InputError(
            f"{results.place} holds no finished full run of a task of {benchmark.title}: run some of "
            f"{', '.join(benchmark.tasks)} first"
        )
    if row is not None:
        check_row("--row", row, rows)
    elif len(rows) > 1:
        raise InputError(f"{results.place} holds the rows {', '.join(rows)}: give the one to submit with --row")
    return row or rows[0]


def plan(benchmark: Benchmark, scores: RowScores, results: Results, data: Path | None) -> Plan:
    """What can be made and what cannot.

    Args:
        data: folder of the binarized folders; None: where those of the runs were.

    Raises:
        InputError: a checkpoint is missing; a test set is damaged or is not the benchmark's.
    """
    parts, missing = [], {}
    for sheet in benchmark.sheets:
        score = scores.get(sheet.of)
        if score is None:
            missing[sheet.file] = f"no finished run of {sheet.of}"
            continue
        for run in score.runs:
            checkpoint_of(results, run)
        if data is not None:
            folder = data / sheet.folder
        else:  # the task's own folder is where the runs had it; the other test sets lie beside it
            own = Path(score.runs[0]["data"])
            folder = own.parent / sheet.folder if sheet.data else own
        if lack := lack_of(sheet, folder):
            missing[sheet.file] = lack
            continue
        questions = DataFolder(folder).questions(sheet.split) if sheet.task.by_choice else None
        parts.append(Part(sheet, score, folder, numbers_of(sheet, DataFolder(folder), questions), questions))
    return Plan(parts, missing)


def checkpoint_of(results: Results, run: Run) -> Path:
    """Where a sweep leaves the checkpoint of a run.

    Raises:
        InputError: it is not there.
    """
    path = run_folder(results.folder, run["run"]) / BEST_CHECKPOINT
    if not path.is_file():
        raise InputError(
            f"{path} of {run['row']} on {run['task']}, lr {run['lr']:g}, seed {run['seed']} is not there: sweep again "
            "without its line in results.jsonl, a whole model with keep_whole_models: true"
        )
    return path


def lack_of(sheet: Sheet, folder: Path) -> str:
    """Return what is missing of the test set, or an empty text."""
    name = sheet.data or sheet.of
    lack = ""
    if not folder.is_dir():
        lack = "does not exist"
    else:
        found, recorded = DataFolder(folder), preprocess_facts(str(folder)).task
        if recorded is not None and recorded.lower() != name.lower():
            lack = f"is of {recorded}"
        elif sheet.split not in found.splits or found.numbers(sheet.split) is None:
            lack = f"has no split {sheet.split} with number/{sheet.split}.txt"
        elif sheet.task.by_choice and found.questions(sheet.split) is None:
            lack = f"has no {question_file(sheet.split)}"
    remedy = f"make it with python -m preprocess {name} --raw DIR --out {folder.parent} --overwrite"
    return f"{folder} {lack}, {remedy}" if lack else ""


def numbers_of(sheet: Sheet, data: DataFolder, questions: Questions | None) -> list[Number]:
    """The numbers of all examples in the order of the data, or of all questions in the order of theirs.

    Raises:
        InputError: they are not those of the whole test set, each once.
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


def answer(
    parts: Sequence[Part], checkpoints: Sequence[Path], batch_size: int, cpu: bool, **moved: Any
) -> list[list[str]]:
    """Voted answers to each of several test sets, which lie in one folder and are for the same models.

    Args:
        moved: options of the models with places that have changed.

    Raises:
        InputError: a checkpoint does not go with the folder, or has other labels than the task.
    """
    answers: list[list[SplitPredictions]] = [[] for _ in parts]
    with quiet("fairseq", "fairseq_idpg"):
        for checkpoint in checkpoints:
            model, task = load_on_folder(str(checkpoint), str(parts[0].folder), cpu, **moved)
            for part, of_part in zip(parts, answers):
                of_part.append(predict_split(model, task, part.sheet.split, batch_size, progress=True))
                check_labels(part.sheet.task, of_part[-1].label_names, checkpoint)
    return [voted(part.sheet.task, of_part, part.questions) for part, of_part in zip(parts, answers)]


def check_labels(task: Task, names: Sequence[str], checkpoint: Path) -> None:
    """Raises InputError unless a model's classes are the task's, in whatever order."""
    if sorted(names) != sorted(task.labels):
        raise InputError(
            f"{checkpoint} answers {', '.join(names) or 'scores'}, and {task.name} takes "
            f"{', '.join(task.labels) or 'scores'}: submit runs on the data of python -m preprocess {task.name}"
        )


def voted(task: Task, answers: Sequence[SplitPredictions], questions: Questions | None = None) -> list[str]:
    """The vote of several models, as the paper has it (Table 7): what most say, or the mean of their scores.

    Classes are those of the same name, in whatever order models have them. Scores are in the task's own scale, and
    within it. With ``questions`` it is a choice of one example of each: its text, or its place in the question.
    """
    if questions is not None:
        choices = [numbered(each, questions)[0] for each in answers]
        return chosen_answers(questions, vote(choices, False, questions))
    if task.regression:
        scores = np.clip(vote([each.answers for each in answers], True) * task.scale, 0, task.scale)
        return [f"{score:.6f}" for score in scores]
    names = np.array(sorted(task.labels))  # among equally many votes the first wins
    classes = [np.searchsorted(names, np.array(each.label_names))[each.answers] for each in answers]
    return names[vote(classes, False)].tolist()


def chosen_answers(questions: Questions, choice: np.ndarray) -> list[str]:
    """Of each question, in the order of their numbers, the text of the chosen example, or its place counted from 0.

    Args:
        choice: N, 1 for the chosen examples and 0 for the others.
    """
    order = np.argsort(questions.number, kind="stable")
    starts = np.unique(questions.number[order], return_index=True)[1]
    places = np.flatnonzero(choice[order])
    if questions.texts is not None:
        return [questions.texts[row] for row in order[places]]
    return [str(place) for place in places - starts]


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


def scores_of(results: Results, args: argparse.Namespace, benchmark: Benchmark, row: str) -> RowScores:
    """Task -> runs of the row at the learning rate with the best mean dev score, chosen as in reports."""
    choice = Choice.of(args, tasks=benchmark.tasks, rows=(row,))
    return take_runs(results, choice).rows("row").get(row, {})


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
    together: dict[tuple[str, Path], list[Part]] = {}  # what the same models answer in the same folder
    for part in planned.parts:
        together.setdefault((part.sheet.of, part.folder), []).append(part)
    for parts in together.values():
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
    check_output(args.out, "--out")
    benchmark, results = BENCHMARKS[args.benchmark], read_results(args.runs)
    row = row_of(results, benchmark, args.row)
    planned = plan(benchmark, scores_of(results, args, benchmark, row), results, args.data)
    check_complete(planned, benchmark, results, row, args.incomplete)
    write_archive(args.out, texts(planned, results, args))
    print(terminal(summary(planned, benchmark, args.out, row)), end="")


if __name__ == "__main__":
    main()
