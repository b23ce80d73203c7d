"""Labels of two tasks are the same where they mean the same, whatever their names and numbers."""

from __future__ import annotations

import pytest

from preprocess.errors import InputError
from preprocess.meanings import MEANINGS, counterparts, meanings_of
from preprocess.tasks import TASKS, TEST_SETS

ALL = {**TASKS, **TEST_SETS}


def test_every_task_of_classes_says_what_its_labels_mean():
    assert MEANINGS.keys() == {task.name for task in ALL.values() if not task.regression}


@pytest.mark.parametrize("name", list(MEANINGS))
def test_every_label_of_a_task_has_one_meaning(name):
    assert sorted(MEANINGS[name]) == sorted(ALL[name].labels)
    assert len(set(MEANINGS[name].values())) == len(MEANINGS[name])


def test_paraphrases_have_opposite_numbers():
    mrpc, qqp = TASKS["MRPC"].labels, TASKS["QQP"].labels
    assert mrpc == qqp[::-1]
    assert counterparts("MRPC", mrpc, "QQP", qqp) == list(mrpc)


def test_other_names_of_the_same():
    assert counterparts("SST-2", ["1", "0"], "IMDB", ["neg", "pos"]) == ["pos", "neg"]
    assert counterparts("WNLI", ["0", "1"], "RTE", ["entailment", "not_entailment"]) == ["not_entailment", "entailment"]
    assert counterparts("CB", TASKS["CB"].labels, "MNLI", TASKS["MNLI"].labels) == list(TASKS["CB"].labels)


@pytest.mark.parametrize(("one", "other"), [("CR", "SUBJ"), ("BoolQ", "WiC"), ("MNLI", "RTE"), ("MRPC", "WNLI")])
def test_the_same_names_of_others(one, other):
    with pytest.raises(InputError, match=f"{one} .*{other} "):
        counterparts(one, ALL[one].labels, other, ALL[other].labels)


@pytest.mark.parametrize(
    ("task", "labels"),
    [(None, ["0", "1"]), ("mine", ["0", "1"]), ("MR", ["entailment", "not_entailment"]), ("STS-B", []), ("MR", ["2"])],
)
def test_what_the_table_does_not_know(task, labels):
    assert meanings_of(task, labels) is None
    assert counterparts(task, labels, "MR", ["0", "1"]) is counterparts("MR", ["0", "1"], task, labels) is None
