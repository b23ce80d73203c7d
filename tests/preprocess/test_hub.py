"""Tasks of GLUE and SuperGLUE from the hub: the bytes that their files give."""

import json
from types import SimpleNamespace

import pytest

from preprocess.hub import TASKS as HUB
from preprocess.tasks import TASKS, TEST_SETS

from .commands import FakeDataset, install_hub
from .test_tasks import SUPER_GLUE, without_labels

PAIR, MNLI = {"sentence1": "a", "sentence2": "b"}, {"premise": "a", "hypothesis": "b"}
EQUIVALENT = ["not_equivalent", "equivalent"]
ENTAILMENT, INFERENCE = ["entailment", "not_entailment"], ["entailment", "neutral", "contradiction"]
HEADERS = dict.fromkeys(["RTE", "MNLI", "STS-B"], "index\tsentence1\tsentence2")
HEADERS |= {"SST-2": "index\tsentence", "CoLA": "index\tsentence", "MRPC": "index\t#1 String\t#2 String"}
GLUE = {  # the file with labels; what the hub has, and its classes
    "RTE": (f"{HEADERS['RTE']}\tlabel\n7\ta\tb\tnot_entailment\n", {**PAIR, "label": 1}, ENTAILMENT),
    "SST-2": ("sentence\tlabel\na b\t1\n", {"sentence": "a b", "label": 1}, ["negative", "positive"]),
    "MNLI": (f"{HEADERS['MNLI']}\tgold_label\n7\ta\tb\tcontradiction\n", {**MNLI, "label": 2}, INFERENCE),
    "STS-B": (f"{HEADERS['STS-B']}\tscore\n7\ta\tb\t3.800\n", {**PAIR, "label": 3.799999952316284}, None),  # a float32
    "MRPC": ("Quality\t#1 ID\t#1 String\t#2 String\n1\t5\ta\tb\n", {**PAIR, "label": 1}, EQUIVALENT),
    "CoLA": ("bc01\t1\t\ta b\n", {"sentence": "a b", "label": 1}, ["unacceptable", "acceptable"]),
}


def as_hub(name: str, record: dict) -> tuple[list[dict], list[str]]:
    """What datasets/super_glue/super_glue.py of huggingface/datasets makes of a record, and its classes."""
    classes, label = ["False", "True"], record.get("label", -1)
    if name == "MultiRC":
        return [
            {"paragraph": record["passage"]["text"], "question": question["question"], "answer": answer["text"],
             "label": answer.get("label", -1),
             "idx": {"paragraph": record["idx"], "question": question["idx"], "answer": answer["idx"]}}
            for question in record["passage"]["questions"] for answer in question["answers"]
        ], classes  # fmt: skip
    if name == "ReCoRD":
        passage = record["passage"]
        entities = sorted({passage["text"][each["start"] : each["end"] + 1] for each in passage["entities"]})
        return [
            {"passage": passage["text"], "query": query["query"], "entities": entities,
             "answers": [answer["text"] for answer in query.get("answers", [])],
             "idx": {"passage": record["idx"], "query": query["idx"]}}
            for query in record["qas"]
        ], []  # fmt: skip
    if name == "COPA":
        classes = ["choice1", "choice2"]
    elif name == "CB":
        classes = ["entailment", "contradiction", "neutral"]
    if isinstance(label, (str, bool)):
        label = classes.index(str(label))
    return [{**record, **record.get("target", {}), "label": label}], classes


def check(commands, monkeypatch, name: str, hub: dict[str, list[dict]], classes) -> None:
    """``--from-hub`` gives what ``--raw`` does, but for the names of the sources."""
    asked = []

    def load_dataset(path, config, split):
        asked.append((path, config))
        rows = FakeDataset(hub[split.partition("_")[0]])
        rows.features = {"label": SimpleNamespace(names=classes)} if classes else {}
        return rows

    install_hub(monkeypatch, load_dataset)
    files = commands.ok(name, "--raw", commands.raw)
    expected = {path.relative_to(files.path): path.read_bytes() for path in files.path.rglob("*.*")}
    found = commands.ok(name, "--from-hub", "--overwrite").path
    assert {path for path, _ in asked} <= {"nyu-mll/glue", "aps/super_glue"}
    different = {path.name for path, content in expected.items() if (found / path).read_bytes() != content}
    assert different == {"preprocess.log"} and len(expected) > 5


@pytest.mark.parametrize("name", list(SUPER_GLUE))
def test_super_glue(name, commands, monkeypatch):
    record, hub = SUPER_GLUE[name][0], {}
    hidden = without_labels(name, record)
    for split, file, each in (("train", "train", record), ("validation", "val", record), ("test", "test", hidden)):
        commands.write(f"{name}/{file}.jsonl", json.dumps(each) + "\n")
        hub[split], classes = as_hub(name, each)
    check(commands, monkeypatch, name, hub, classes)


@pytest.mark.parametrize("name", GLUE)
def test_glue(name, commands, monkeypatch):
    labelled, row, classes = GLUE[name]
    hidden = f"{HEADERS[name]}\n7\t{'a b' if 'sentence' in row else 'a' + chr(9) + 'b'}\n"
    for split, file in TASKS[name].files.items():
        commands.write(f"{name}/{file}", hidden if split.startswith("test") else labelled)
    row = {**row, "idx": 7}
    hub = {"train": [row], "validation": [row], "test": [{**row, "label": -1 if classes else -1.0}]}
    check(commands, monkeypatch, name, hub, classes)


def test_a_class_that_the_table_lacks_is_refused(commands, monkeypatch):
    rows = FakeDataset([{**PAIR, "label": label, "idx": 7} for label in (0, 1, 0)])
    rows.features = {"label": SimpleNamespace(names=["entailment", "unknown"])}
    install_hub(monkeypatch, lambda path, config, split: rows)
    assert "line 2: label 'unknown'" in commands.fails("RTE", "--from-hub", "--splits", "train")


def test_a_task_that_the_hub_has_not(commands):
    assert "--from-hub: CR has no data set" in commands.fails("CR", "--from-hub")
    elsewhere = {"CR", "MR", "SUBJ", "MPQA", "IMDB", "Reviews", "SNLI"}
    assert TASKS.keys() | TEST_SETS.keys() == HUB.keys() | elsewhere
