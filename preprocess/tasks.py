"""The tasks of the paper, of GLUE and SuperGLUE, and of the quick start: files, columns, labels, metric, settings.

Sources: IDPG, Tables 1, 4 and 5 and appendix A.1; the files of gluebenchmark.com, super.gluebenchmark.com, SNLI 1.0,
and the LM-BFF collection (CR, MR, SUBJ, MPQA); the README of aclImdb, whose settings here are those of IDPG's large
tasks, as that paper has no IMDB; test files as nyu-mll/GLUE-baselines (download_glue_data.py) and huggingface/datasets
(glue, super_glue) have them.

fairseq numbers the classes of a training set by their frequency. The table has the same order, so that a folder of a
validation set alone fits a model of the whole (counts and their sources: tests/preprocess/test_tasks.py). A class's
number means nothing outside its folder, and its name nothing outside its task: "1" is a paraphrase in QQP and an
objective sentence in SUBJ. So the table has meanings, which are equal where labels of two tasks mean the same. Their
sources: label_classes of huggingface/datasets (datasets/glue/glue.py), but QQP's "duplicate" and MRPC's "equivalent"
are one, as in ID-SPAM, Table 1; for CR, MR, SUBJ and MPQA the verbalisers of LPT's released code
(encoder-only/data/process.py); for SuperGLUE what its tasks ask.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import InputError, did_you_mean
from .flags import aligned

MAX_POSITIONS = 512  # tokens of an example: RoBERTa's
Column = str | int  # a name in the header, or a number counted from 0


@dataclass(frozen=True)
class Settings:
    """How the paper trains a task (Table 4 and the released scripts)."""

    batch_size: int
    max_epoch: int
    learning_rates: tuple[float, ...]


OF_SCORES = "pearson_and_spearman"  # the metric of tasks with scores
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
    """Where a task's examples are, what they mean, and how the paper trains it."""

    name: str
    layout: str  # how its files are read, see ``readers``
    files: dict[str, str]  # split: file name
    folders: tuple[str, ...]  # names of the folder that holds them
    texts: tuple[Column, ...]  # columns of one or two sentences
    label: Column
    meanings: dict[str, str]  # of the classes as files have them, in the order of their ids; {}: regression
    metric: str = "accuracy"
    settings: str = "small"
    scale: float = 1.0  # scores are divided by it
    header: bool = True  # files start with the names of their columns
    test_texts: tuple[str, ...] = ()  # columns of a test file, if only that file has a header
    number: str | None = None  # column of a test file with the benchmark's number of each example
    skipped_labels: tuple[str, ...] = ()  # of rows without a gold label
    trailing_fields: bool = False  # rows may have more fields than the header

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.meanings)

    @property
    def pairs(self) -> bool:
        return len(self.texts) == 2

    @property
    def regression(self) -> bool:
        return self.metric == OF_SCORES

    @property
    def by_choice(self) -> bool:
        """Whether a model answers a question with the example that is the likeliest to have the label 1."""
        return self.metric.startswith("choice_")


# {task: {class: meaning}}, the most frequent class of the training set first, equally frequent ones alphabetically
INFERENCE = {"contradiction": "contradiction", "neutral": "neutral", "entailment": "entailment"}
ENTAILMENT = {"entailment": "entailment", "not_entailment": "not entailment"}
MEANINGS: dict[str, dict[str, str]] = {
    **dict.fromkeys(("CR", "SST-2"), {"1": "positive", "0": "negative"}),
    **dict.fromkeys(("MR", "MPQA", "Reviews"), {"0": "negative", "1": "positive"}),
    "SUBJ": {"0": "subjective", "1": "objective"},
    "IMDB": {"neg": "negative", "pos": "positive"},
    **dict.fromkeys(("QNLI", "RTE"), ENTAILMENT),
    "MRPC": {"1": "equivalent", "0": "not equivalent"},
    "QQP": {"0": "not equivalent", "1": "equivalent"},
    "STS-B": {},
    "MNLI": INFERENCE,
    "SNLI": {label: INFERENCE[label] for label in ("entailment", "contradiction", "neutral")},
    "CB": {label: INFERENCE[label] for label in ("contradiction", "entailment", "neutral")},
    "CoLA": {"1": "acceptable", "0": "unacceptable"},
    "WNLI": {"0": "not entailment", "1": "entailment"},
    "BoolQ": {"true": "yes", "false": "no"},
    "WiC": {"false": "other sense", "true": "same sense"},
    "WSC": {"false": "other thing", "true": "same thing"},
    "COPA": {"0": "wrong choice", "1": "right choice"},
    "MultiRC": {"0": "wrong answer", "1": "right answer"},
    "ReCoRD": {"0": "wrong entity", "1": "right entity"},
}

TSV = {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"}
JSONL = {"train": "train.jsonl", "valid": "val.jsonl", "test": "test.jsonl"}
LM_BFF = ("CR", "MR", "SUBJ", "MPQA")
CSV = {"train": "train.csv", "valid": "test.csv", "test": "test.csv"}  # the paper selects and reports on one split
FOLDERS = "folders"  # a layout: a file for each text, in a folder for each label
FOLDERS_OF_TEXTS = {"train": "train", "valid": "test", "test": "test"}  # of IMDB; its train/unsup has no labels
REVIEWS = {**TSV, "valid": "valid.tsv"}  # of the quick start
MNLI_FILES = {"train": "train.tsv", "valid": "dev_matched.tsv", "valid1": "dev_mismatched.tsv"}
MNLI_FILES |= {"test": "test_matched.tsv", "test1": "test_mismatched.tsv"}


def _single(name: str, layout: str, files: dict[str, str], folders: tuple[str, ...], **more: Any) -> Task:
    """A task of single sentences in files without a header, the label in front."""
    return Task(name, layout, files, folders, (1,), 0, MEANINGS[name], header=False, **more)


def _glue(name: str, texts: tuple[Column, ...], label: Column, **more: Any) -> Task:
    more = {"files": TSV, "folders": (name, f"glue_data/{name}"), "number": "index", **more}
    return Task(name, "tsv", texts=texts, label=label, meanings=MEANINGS[name], **more)


def _super_glue(name: str, texts: tuple[str, str], layout: str = "jsonl", label: str = "label", **more: Any) -> Task:
    folders = (name, f"SuperGLUE/{name}")
    return Task(name, layout, JSONL, folders, texts, label, MEANINGS[name], number="idx", **more)


def _test_set(name: str, of: str, folder: str, file: str, texts: tuple[str, str]) -> Task:
    """A test set that a model of the task ``of`` answers."""
    layout, number, archive = ("tsv", "index", "glue_data") if file.endswith(".tsv") else ("jsonl", "idx", "SuperGLUE")
    folders = (folder, f"{archive}/{folder}")
    return Task(name, layout, {"test": file}, folders, texts, "label", MEANINGS[of], number=number)


SENTENCES = ("sentence1", "sentence2")
PREMISE = ("premise", "hypothesis")
TASKS = {
    task.name: task
    for task in (
        *(_single(name, "csv", CSV, (f"original/{name.lower()}", name.lower(), name)) for name in LM_BFF),
        _single("IMDB", FOLDERS, FOLDERS_OF_TEXTS, ("aclImdb",), settings="large"),
        _single("Reviews", "tsv", REVIEWS, ("quickstart/reviews", "reviews")),
        _glue("SST-2", ("sentence",), "label", settings="large"),
        _glue("QNLI", ("question", "sentence"), "label", settings="large"),
        _glue("RTE", SENTENCES, "label"),
        _glue("MRPC", ("#1 String", "#2 String"), "Quality", metric="acc_and_f1"),
        _glue("QQP", ("question1", "question2"), "is_duplicate", metric="acc_and_f1", settings="large", number="id"),
        _glue("STS-B", SENTENCES, "score", metric=OF_SCORES, scale=5.0, trailing_fields=True),
        _glue("MNLI", SENTENCES, "gold_label", settings="supplementary", files=MNLI_FILES),
        _glue("CoLA", (3,), 1, metric="mcc", header=False, test_texts=("sentence",)),
        _glue("WNLI", SENTENCES, "label"),
        _glue("SNLI", SENTENCES, "gold_label", settings="supplementary", skipped_labels=("-",), number=None),
        _super_glue("CB", PREMISE, metric="acc_and_macro_f1"),
        _super_glue("BoolQ", ("passage", "question")),
        _super_glue("WiC", SENTENCES, "wic"),
        _super_glue("WSC", ("text", "noun phrase"), "wsc"),
        _super_glue("COPA", ("premise", "choice"), "copa", metric="choice_accuracy"),
        _super_glue("MultiRC", ("passage", "question and answer"), "multirc", metric="f1a_and_em"),
        _super_glue(
            "ReCoRD", ("passage", "query and entity"), "record", "answers", metric="choice_f1_and_em", settings="large"
        ),
    )
}
TEST_SETS = {  # of the benchmarks, without a training set of their own: the diagnostics; RTE as SuperGLUE has it
    test.name: test
    for test in (
        _test_set("AX", "MNLI", "diagnostic", "diagnostic.tsv", SENTENCES),
        _test_set("AX-b", "RTE", "AX-b", "AX-b.jsonl", SENTENCES),
        _test_set("AX-g", "RTE", "AX-g", "AX-g.jsonl", PREMISE),
        _test_set("RTE-SuperGLUE", "RTE", "RTE", "test.jsonl", PREMISE),
    )
}


def known_task(name: str, tasks: Mapping[str, Task] = TASKS) -> Task | None:
    """Return the task of this name, upper or lower case; None for one of own data."""
    return {known.lower(): task for known, task in tasks.items()}.get(name.lower())


def own_task(name: str, pairs: bool, metric: str, labels: Sequence[str] = (), settings: str = "small") -> Task:
    """Return a task of own data, whose labels mean their names."""
    texts = SENTENCES if pairs else ("sentence",)
    return Task(name, "tsv", {}, (), texts, "label", dict(zip(labels, labels)), metric, settings)


def find_task(name: str, tasks: Mapping[str, Task] = TASKS) -> Task:
    """Return the task of this name, upper or lower case; raise InputError that suggests the nearest name."""
    if (task := known_task(name, tasks)) is not None:
        return task
    hint = did_you_mean(name, tasks, any_case=True)
    own = "for your own data give --from-tsv, --from-csv, --from-jsonl or --from-hub"
    raise InputError(f"task {name} is unknown: {hint}choose from {', '.join(tasks)}; {own}")


def meanings_of(task: str | None, labels: Sequence[str]) -> list[str] | None:
    """Return what each label means; None for labels of own data or of --efl, which the table does not have."""
    entry = {**TASKS, **TEST_SETS}.get(task or "")
    known = entry.meanings if entry else {}
    return [known[label] for label in labels] if labels and known.keys() >= set(labels) else None


def counterparts(task: str | None, labels: Sequence[str], other: str | None, others: Sequence[str]) -> list[str] | None:
    """Return for each of a task's labels the one of another task that means the same; None where it is not known.

    Raise InputError where the other task's labels mean something else.
    """
    ours, theirs = meanings_of(task, labels), meanings_of(other, others)
    if ours is None or theirs is None:
        return None
    if sorted(ours) != sorted(theirs):
        what = f"the labels of {task} mean {', '.join(ours)}, and those of {other} {', '.join(theirs)}"
        raise InputError(f"{what}: a model says nothing about other labels, name a task whose labels mean the same")
    return [others[theirs.index(meaning)] for meaning in ours]


def described(label: str, meaning: str) -> str:
    """Return a label, with its meaning where that is another text."""
    return label if meaning == label.replace("_", " ") else f"{label} ({meaning})"


def main(arguments: Sequence[str]) -> None:
    """``python -m preprocess tasks``: the table of tasks."""
    example = "example: python -m preprocess tasks"
    summary = "Lists the known tasks: their files, labels, metric and settings."
    argparse.ArgumentParser("python -m preprocess tasks", description=summary, epilog=example).parse_args(arguments)
    rows = [("task", "texts", "labels", "metric", "settings", "files")]
    for task in (*TASKS.values(), *TEST_SETS.values()):
        labels = ", ".join(described(*item) for item in task.meanings.items()) or f"a score from 0 to {task.scale:g}"
        files = f"{task.folders[0]}/{{{','.join(dict.fromkeys(task.files.values()))}}}"
        trained = (task.metric, task.settings) if task.name in TASKS else ("-", "-")
        rows.append((task.name, "pair" if task.pairs else "single", labels, *trained, files))
    print(*aligned(rows, left=range(len(rows[0]))), sep="\n")
