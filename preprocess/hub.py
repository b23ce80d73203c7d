"""Data sets of the Hugging Face hub, with the optional package ``datasets``: any one, and the tasks of GLUE, SuperGLUE.

Rows of the hub are turned back into those of the tasks' files. Source for the hub's form: datasets/glue/glue.py and
datasets/super_glue/super_glue.py of huggingface/datasets.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from .errors import InputError, reason_of
from .readers import RECORDS, Columns, Items, Record, record_rows
from .sources import Source
from .tasks import PREMISE, SENTENCES, Task

LEAST_DATASETS = 4  # the first version of `datasets` that runs no scripts of data sets (its release notes)
GLUE, SUPER_GLUE = "nyu-mll/glue", "aps/super_glue"
SPLITS = {"train": "train", "valid": "validation", "test": "test"}
MNLI = {"train": "train", "valid": "validation_matched", "valid1": "validation_mismatched"}
MNLI |= {"test": "test_matched", "test1": "test_mismatched"}
TASKS = {  # task: data set and configuration
    **{name: f"{GLUE}:{name.lower().replace('-', '')}" for name in ("SST-2", "QNLI", "RTE", "MRPC", "QQP", "STS-B")},
    **{name: f"{GLUE}:{name.lower()}" for name in ("MNLI", "CoLA", "WNLI", "AX")},
    **{name: f"{SUPER_GLUE}:{name.lower()}" for name in ("CB", "BoolQ", "WiC", "WSC", "COPA", "MultiRC", "ReCoRD")},
    **{"AX-b": f"{SUPER_GLUE}:axb", "AX-g": f"{SUPER_GLUE}:axg", "RTE-SuperGLUE": f"{SUPER_GLUE}:rte"},
}
TEXTS = {"MRPC": SENTENCES, "CoLA": ("sentence",), "MNLI": PREMISE, "AX": PREMISE}  # other columns

Rows = tuple[Source, Callable[[], Items]]


def load_hub(dataset: str, hub_name: str) -> tuple[Any, Source]:
    """Return the rows of a split of ``DATASET`` or ``DATASET:CONFIG``, and where they are from."""
    try:
        import datasets

        if int(datasets.__version__.partition(".")[0]) < LEAST_DATASETS:
            raise ImportError(f"datasets {datasets.__version__} runs scripts of data sets")
    except ImportError as error:
        raise InputError(f"--from-hub: {error}: pip install 'datasets>={LEAST_DATASETS}'") from None
    path, _, config = dataset.partition(":")
    try:
        data = datasets.load_dataset(path, config or None, split=hub_name)
    except Exception as error:  # datasets raises many kinds: no network, no such data set, no such split
        reason = reason_of(error)
        raise InputError(f"--from-hub {dataset}, split {hub_name}: {reason}: check the name and the network") from None
    source = Source(f"hub:{dataset}/{hub_name}")
    source.sha256 = f"fingerprint {data._fingerprint}"
    return data, source


def hub_rows(dataset: str, hub_name: str, columns: Columns) -> Rows:
    """Return the source and the rows of a split of own data, with names of classes instead of their numbers."""
    (data, source), label = load_hub(dataset, hub_name), columns.label
    missing = [column for column in [*columns.texts, label] if column not in data.column_names]
    if missing and not (missing == [label] and columns.label_optional):
        known = ", ".join(data.column_names)
        raise InputError(f"--from-hub {dataset} has no column {missing[0]}: name columns of {known}")
    names = getattr(data.features.get(label), "names", None)

    def named(record: Record) -> Record:
        number = record.get(label)
        if names is None or number is None:
            return record
        return {**record, label: names[number] if number >= 0 else None}  # -1: the label is hidden

    return source, lambda: record_rows(enumerate(map(named, data), start=1), columns)


def task_rows(task: Task, split: str, columns: Columns) -> Rows:
    """Return the source and the rows of a split of a known task. The rows are those that its files have."""
    if task.name not in TASKS:
        raise InputError(f"--from-hub: {task.name} has no data set here: name one, or give its files with --raw")
    data, source = load_hub(TASKS[task.name], (MNLI if task.name == "MNLI" else SPLITS)[split])
    names = getattr(data.features.get("label"), "names", None)
    if task.layout in RECORDS:
        make, columns = RECORDS[task.layout], columns._replace(label="label")
    else:
        make, number = RECORDS["jsonl"], "idx" if columns.number else None
        columns = columns._replace(texts=TEXTS.get(task.name, task.texts), label="label", number=number)

    def labelled(record: Record) -> Record:
        label = record.get("label")
        if label is None or label == -1:  # hidden
            label = None
        elif names is None:  # a score, of which the hub has a float32
            label = f"{label:.7g}"
        elif task.layout not in ("copa", "multirc"):  # which have numbers
            known = (names[label], names[label].lower(), str(label))
            label = next((name for name in known if name in task.labels), names[label])  # or refused as unknown
        return {**record, "label": label}

    whole = WHOLE.get(task.layout, iter)
    return source, lambda: record_rows(enumerate(whole(map(labelled, data)), start=1), columns, make)


def _multirc(records: Iterable[Record]) -> Iterator[Record]:
    """Join the answers of a question and the questions of a passage, which the hub has one by one."""
    for passage, of_passage in groupby(records, lambda record: record["idx"]["paragraph"]):
        questions = []
        for question, group in groupby(of_passage, lambda record: record["idx"]["question"]):
            answers = list(group)
            parts = [{"text": each["answer"], "label": each["label"], "idx": each["idx"]["answer"]} for each in answers]
            questions.append({"question": answers[0]["question"], "idx": question, "answers": parts})
        yield {"idx": passage, "passage": {"text": answers[0]["paragraph"], "questions": questions}}


def _record(records: Iterable[Record]) -> Iterator[Record]:
    """Join the queries of a passage; the hub has the entities' texts, which stand in the passage."""
    for _, group in groupby(records, lambda record: record["idx"]["passage"]):
        queries = list(group)
        text, entities = queries[0]["passage"], queries[0]["entities"]
        starts = [(text.index(entity), len(entity)) for entity in entities]
        asked = [
            {"query": each["query"], "idx": each["idx"]["query"], "answers": [{"text": a} for a in each["answers"]]}
            for each in queries
        ]
        places = [{"start": start, "end": start + length - 1} for start, length in starts]
        yield {"passage": {"text": text, "entities": places}, "qas": asked}


# layout -> what makes records of a file of the hub's, where these differ in more than labels
WHOLE: dict[str, Callable[[Iterable[Record]], Iterator[Record]]] = {
    "wsc": lambda records: ({**record, "target": record} for record in records),  # files have these fields in a target
    **{"multirc": _multirc, "record": _record},
}
