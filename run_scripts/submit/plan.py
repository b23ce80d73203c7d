"""Which runs answer which test set, found out before the first model is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_idpg.tasks.folder import preprocess_facts
from preprocess.data_folder import DataFolder
from preprocess.errors import InputError
from preprocess.questions import Questions, question_file
from preprocess.validation import check_split

from ..report.choice import Choice, check_row, take_runs
from ..report.records import Results, Run, has_finished
from ..report.scores import RowScores, Score, rows_of
from ..run.records import BEST_CHECKPOINT, run_folder
from .formats import Number, arity
from .rules import Benchmark, Sheet


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


def scores_of(results: Results, choice: Choice) -> RowScores:
    """Task -> runs of the one chosen row at the learning rate with the best mean dev score, chosen as in reports."""
    scope = take_runs(results, choice)
    return rows_of(scope.done, failed=scope.failed).get(choice.rows[0], {})


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
        folder = folder_of(sheet, score.runs, data)
        lack = lack_of(sheet, folder)
        if lack:
            missing[sheet.file] = lack
        else:
            data_folder = DataFolder(folder)
            questions = data_folder.questions(sheet.split) if sheet.task.by_choice else None
            parts.append(Part(sheet, score, folder, numbers_of(sheet, data_folder, questions), questions))
    return Plan(parts, missing)


def checkpoint_of(results: Results, run: Run) -> Path:
    """Where a sweep leaves the checkpoint of a run.

    Raises:
        InputError: it is not there.
    """
    path = run_folder(results.folder, run["run"]) / BEST_CHECKPOINT
    if not path.is_file() or Path(run["run"]).name != run["run"]:
        raise InputError(
            f"{path} of {run['row']} on {run['task']}, lr {run['lr']:g}, seed {run['seed']} is not there: sweep again "
            "without its line in results.jsonl, a whole model with keep_whole_models: true"
        )
    return path


def folder_of(sheet: Sheet, runs: Sequence[Run], data: Path | None) -> Path:
    """The task's own folder is where the runs had it; the other test sets lie beside it.

    Raises:
        InputError: nothing says where.
    """
    if data is not None:
        return data / sheet.folder
    own = runs[0].get("data")
    if not isinstance(own, str) or not own:
        raise InputError(f"run {runs[0]['run']} does not say where its data was: give --data")
    return Path(own).parent / sheet.folder if sheet.data else Path(own)


def lack_of(sheet: Sheet, folder: Path) -> str:
    """What is missing of the test set; empty if nothing is."""
    name = sheet.data or sheet.of
    remedy = f"make it with python -m preprocess {name} --raw DIR --out {folder.parent} --overwrite"
    if not folder.is_dir():
        return f"{folder} does not exist, {remedy}"
    found, recorded = DataFolder(folder), preprocess_facts(str(folder)).task
    if recorded is not None and recorded.lower() != name.lower():
        return f"{folder} is of {recorded}, {remedy}"
    if sheet.split not in found.splits:
        return f"{folder} has no split {sheet.split}, {remedy}"
    if found.numbers(sheet.split) is None:
        return f"{folder} has no number/{sheet.split}.txt, {remedy}"
    if sheet.task.by_choice and found.questions(sheet.split) is None:
        return f"{folder} has no {question_file(sheet.split)}, {remedy}"
    return ""


def numbers_of(sheet: Sheet, data: DataFolder, questions: Questions | None) -> list[Number]:
    """The numbers of all examples in the order of the data, or of all questions in the order of theirs.

    Raises:
        InputError: they are not those of the whole test set, each once.
    """
    numbers, examples, what = data.numbers(sheet.split) or [], check_split(data, sheet.split), "examples"
    if questions is not None and len(numbers) == examples:
        numbers = [number for _, number in sorted(set(zip(questions.number.tolist(), numbers)))]
        examples, what = questions.count, "questions"
    found = {"numbers": len(numbers), what: examples, "different numbers": len(set(numbers))}
    wrong = {what: count for what, count in found.items() if count != sheet.examples}
    if wrong or any(len(number) != arity(sheet.file) for number in numbers):
        said = ", ".join(f"{count:,} {what}" for what, count in wrong.items()) or "numbers of another kind"
        raise InputError(
            f"{data.path} split {sheet.split} has {said}, and {sheet.file} takes {sheet.examples:,} answers: "
            "preprocess the benchmark's own test file, with --strict"
        )
    return numbers


def together(parts: Iterable[Part]) -> list[list[Part]]:
    """Parts that the same models answer in the same folder."""
    groups: dict[tuple[str, Path], list[Part]] = {}
    for part in parts:
        groups.setdefault((part.sheet.of, part.folder), []).append(part)
    return list(groups.values())
