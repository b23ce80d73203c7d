"""The order of classes without a training split is that of the training set's counts."""

from collections import Counter
from pathlib import Path

import pytest

from preprocess.data_folder import DataFolder
from preprocess.label_counts import LABEL_COUNTS, TEXT, UNVERIFIED, label_order
from preprocess.split_facts import class_counts
from preprocess.tasks import TASKS

SHARED = Path(__file__).parents[3] / "shared" / "data"
published = pytest.mark.skipif(not SHARED.is_dir(), reason="the published folders are not here")
CLASSES = [name for name, task in TASKS.items() if not task.regression]


def test_qnli_begins_with_entailment(commands):
    commands.write("QNLI/dev.tsv", "index\tquestion\tsentence\tlabel\n0\ta\tb\tnot_entailment\n")
    data = commands.ok("QNLI", "--raw", commands.raw, "--splits", "valid")
    assert data.label_names == ["entailment", "not_entailment"] and data.classes("valid").tolist() == [1]


@pytest.mark.parametrize("name", CLASSES)
def test_order_comes_from_counts(name):
    """A training set with these counts, or a part of it in which no tie is broken, gives the same order."""
    labels = TASKS[name].labels
    assert labels == label_order(name) and len(set(labels)) == len(labels) > 1
    if name in UNVERIFIED:
        return
    counts, source = LABEL_COUNTS[name]
    assert source and set(counts) == set(labels)
    numbers = [counts[label] for label in labels]
    assert numbers == sorted(numbers, reverse=True)
    ties = [(a, b) for a, b in zip(labels, labels[1:]) if counts[a] == counts[b]]
    assert all(a < b for a, b in ties)


def test_every_task_has_counts_or_is_named_unverified():
    assert set(LABEL_COUNTS) | set(UNVERIFIED) == set(CLASSES) and not set(LABEL_COUNTS) & set(UNVERIFIED)


@published
@pytest.mark.parametrize("name", [name for name, counted in LABEL_COUNTS.items() if counted.source == TEXT])
def test_counts_of_the_published_text(name):
    folder = name.lower() if name in ("CR", "MR") else name
    lines = (SHARED / "text" / folder / "train.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    assert Counter(line.split("\t")[0] for line in lines) == LABEL_COUNTS[name].counts


@published
@pytest.mark.parametrize("name, folder", [("CR", "cr-bin"), ("MRPC", "MRPC-bin")])
def test_order_of_the_published_folder(name, folder):
    data = DataFolder(SHARED / "reference_bin" / folder)
    assert tuple(data.label_names) == label_order(name)
    assert class_counts(data, "train") == LABEL_COUNTS[name].counts
