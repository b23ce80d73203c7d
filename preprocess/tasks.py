"""The tasks of the paper, of GLUE and SuperGLUE, and of the quick start: files, columns, labels, metric, settings.

The one place of these facts; whatever needs them reads them here. Sources: IDPG, Tables 1, 4 and 5 and appendix A.1;
the files of gluebenchmark.com, super.gluebenchmark.com, SNLI 1.0, and the LM-BFF collection (CR, MR, SUBJ, MPQA);
the README of aclImdb, whose settings here are those of IDPG's large tasks, as that paper has no IMDB;
test files as nyu-mll/GLUE-baselines (download_glue_data.py) and huggingface/datasets (glue, super_glue) have them.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .columns import aligned
from .errors import InputError, did_you_mean
from .task_labels import MEANINGS, label_order

Column = str | int  # a name in the header, or a number counted from 0
TSV = {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"}
JSONL = {"train": "train.jsonl", "valid": "val.jsonl", "test": "test.jsonl"}
FOLDERS = "folders"  # a layout: a file for each text, in a folder for each label
CSV = {"train": "train.csv", "valid": "test.csv", "test": "test.csv"}  # the paper selects and reports on one split


@dataclass(frozen=True)
class Settings:
    """How the paper trains a task (Table 4 and the released scripts); Adam 0.9, 0.98, 1e-6; weight decay and
    dropout 0.1."""

    batch_size: int
    max_epoch: int
    learning_rates: tuple[float, ...]


GRID = (5e-3, 1e-3, 5e-4, 1e-4)
SETTINGS = {
    "small": Settings(16, 50, GRID),
    "large": Settings(32, 10, GRID),
    "supplementary": Settings(32, 10, (1e-5,)),
    "few-shot": Settings(16, 50, (5e-4, 1e-4, 5e-5, 1e-5)),
}
# Whole models, fine-tuning and EFL, as RoBERTa's authors train them (A.1.1; fairseq's examples/roberta/README.glue.md):
# the rate rises over 6% of the updates and falls linearly to 0.
WHOLE_MODEL_RATES = (1e-5, 2e-5, 3e-5)
WHOLE_MODEL = {
    "small": Settings(16, 10, WHOLE_MODEL_RATES),
    "large": Settings(32, 10, WHOLE_MODEL_RATES),
    "few-shot": Settings(16, 10, WHOLE_MODEL_RATES),
}
WARM_UP = 0.06


@dataclass(frozen=True)
class Task:
    """One task.

    ``layout``: how its files are read, see ``readers``; ``files``: split → file name;
    ``folders``: names of the folder that holds them; ``texts``: columns of one or two sentences;
    ``labels``: the classes as written in the files, () for regression, in the order that they get when there is no
    training split (task_labels.py; else the most frequent first, as in fairseq); ``scale``: what regression scores
    are divided by;
    ``header``: whether files start with the names of their columns; ``test_texts``: columns of a test file that alone
    has such a header; ``number``: column of a test file with the benchmark's own number of each example;
    ``skipped_labels``: rows without a gold label; ``trailing_fields``: rows may have more fields than the header;
    ``by_choice``: a model's answer to a question is one of its examples, the likeliest to have the label 1.
    """

    name: str
    layout: str
    files: dict[str, str]
    folders: tuple[str, ...]
    texts: tuple[Column, ...]
    label: Column
    labels: tuple[str, ...]
    metric: str = "accuracy"
    settings: str = "small"
    scale: float = 1.0
    header: bool = True
    test_texts: tuple[str, ...] = ()
    number: str | None = None
    skipped_labels: tuple[str, ...] = ()
    trailing_fields: bool = False
    by_choice: bool = False

    @property
    def pairs(self) -> bool:
        return len(self.texts) == 2

    @property
    def regression(self) -> bool:
        return not self.labels

    @property
    def meanings(self) -> Mapping[str, str]:
        """What each label means, in the words that it has in all tasks; {} where that is not known."""
        return MEANINGS.get(self.name, {})


def _glue(name: str, texts: tuple[Column, ...], label: Column, **more: Any) -> Task:
    labels = () if "scale" in more else label_order(name)
    more = {"files": TSV, "folders": (name, f"glue_data/{name}"), "number": "index", **more}
    return Task(name, "tsv", texts=texts, label=label, labels=labels, **more)


def _lm_bff(name: str) -> Task:
    folder = name.lower()
    folders = (f"original/{folder}", folder, name)
    return Task(name, "csv", CSV, folders, (1,), 0, label_order(name), header=False)


def _super_glue(name: str, texts: tuple[str, str], layout: str = "jsonl", label: str = "label", **more: Any) -> Task:
    folders = (name, f"SuperGLUE/{name}")
    return Task(name, layout, JSONL, folders, texts, label, label_order(name), number="idx", **more)


FOLDERS_OF_TEXTS = {"train": "train", "valid": "test", "test": "test"}  # of IMDB; its train/unsup has no labels
REVIEWS = {split: f"{split}.tsv" for split in ("train", "valid", "test")}  # of the quick start
SENTENCES = ("sentence1", "sentence2")
MNLI_FILES = {
    "train": "train.tsv",
    "valid": "dev_matched.tsv",
    "valid1": "dev_mismatched.tsv",
    "test": "test_matched.tsv",
    "test1": "test_mismatched.tsv",
}

TASKS = {
    task.name: task
    for task in (
        _lm_bff("CR"),
        _lm_bff("MR"),
        _lm_bff("SUBJ"),
        _lm_bff("MPQA"),
        Task("IMDB", FOLDERS, FOLDERS_OF_TEXTS, ("aclImdb",), (1,), 0, label_order("IMDB"), settings="large"),
        Task(
            "Reviews", "tsv", REVIEWS, ("quickstart/reviews", "reviews"), (1,), 0, label_order("Reviews"), header=False
        ),
        _glue("SST-2", ("sentence",), "label", settings="large"),
        _glue("QNLI", ("question", "sentence"), "label", settings="large"),
        _glue("RTE", SENTENCES, "label"),
        _glue("MRPC", ("#1 String", "#2 String"), "Quality", metric="acc_and_f1"),
        _glue("QQP", ("question1", "question2"), "is_duplicate", metric="acc_and_f1", settings="large", number="id"),
        _glue("STS-B", SENTENCES, "score", metric="pearson_and_spearman", scale=5.0, trailing_fields=True),
        _glue("MNLI", SENTENCES, "gold_label", settings="supplementary", files=MNLI_FILES),
        _glue("CoLA", (3,), 1, metric="mcc", header=False, test_texts=("sentence",)),
        _glue("WNLI", SENTENCES, "label"),
        _glue("SNLI", SENTENCES, "gold_label", settings="supplementary", skipped_labels=("-",), number=None),
        _super_glue("CB", ("premise", "hypothesis"), metric="acc_and_macro_f1"),
        _super_glue("BoolQ", ("passage", "question")),
        _super_glue("WiC", SENTENCES, layout="wic"),
        _super_glue("WSC", ("text", "noun phrase"), layout="wsc"),
        _super_glue("COPA", ("premise", "choice"), layout="copa", metric="choice_accuracy", by_choice=True),
        _super_glue("MultiRC", ("passage", "question and answer"), layout="multirc", metric="f1a_and_em"),
        _super_glue(
            *("ReCoRD", ("passage", "query and entity"), "record", "answers"),
            metric="choice_f1_and_em",
            settings="large",
            by_choice=True,
        ),
    )
}


def _test_set(name: str, of: str, folder: str, file: str, texts: tuple[str, str] = SENTENCES) -> Task:
    """A test set that a model of the task ``of`` answers."""
    layout, number = ("tsv", "index") if file.endswith(".tsv") else ("jsonl", "idx")
    folders = (folder, f"{'glue_data' if layout == 'tsv' else 'SuperGLUE'}/{folder}")
    return Task(name, layout, {"test": file}, folders, texts, "label", TASKS[of].labels, number=number)


TEST_SETS = {  # of the benchmarks, without a training set of their own: the diagnostics; RTE as SuperGLUE has it
    test.name: test
    for test in (
        _test_set("AX", "MNLI", "diagnostic", "diagnostic.tsv"),
        _test_set("AX-b", "RTE", "AX-b", "AX-b.jsonl"),
        _test_set("AX-g", "RTE", "AX-g", "AX-g.jsonl", ("premise", "hypothesis")),
        _test_set("RTE-SuperGLUE", "RTE", "RTE", "test.jsonl", ("premise", "hypothesis")),
    )
}


def find_task(name: str, tasks: Mapping[str, Task] = TASKS) -> Task:
    """The one of ``tasks`` that has this name, upper or lower case.

    Raises:
        InputError: there is none; the nearest name is suggested.
    """
    by_lower = {known.lower(): task for known, task in tasks.items()}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    hint = did_you_mean(name, tasks, any_case=True)
    raise InputError(
        f"task {name} is unknown: {hint}Known: {', '.join(tasks)}; for your own data give --from-tsv, --from-csv, "
        "--from-jsonl or --from-hub"
    )


def described(task: Task, label: str) -> str:
    """A label, and what it means where that is not what it says."""
    meaning = task.meanings.get(label, label)
    return label if meaning == label.replace("_", " ") else f"{label} ({meaning})"


def main(arguments: Sequence[str]) -> None:
    """``python -m preprocess tasks``: the table of tasks."""
    argparse.ArgumentParser("python -m preprocess tasks", description="Lists the known tasks.").parse_args(arguments)
    rows = [("task", "texts", "labels", "metric", "settings", "files")]
    for task in (*TASKS.values(), *TEST_SETS.values()):
        labels = ", ".join(map(partial(described, task), task.labels)) or f"a score from 0 to {task.scale:g}"
        files = f"{task.folders[0]}/{{{','.join(dict.fromkeys(task.files.values()))}}}"
        trained = (task.metric, task.settings) if task.name in TASKS else ("-", "-")
        rows.append((task.name, "pair" if task.pairs else "single", labels, *trained, files))
    print(*aligned(rows, left=range(len(rows[0]))), sep="\n")
