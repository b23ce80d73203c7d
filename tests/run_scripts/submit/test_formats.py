"""The text of a file says what it was given: numbers with their answers, in their order."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_scripts.submit.formats import arity, text_of

UNIQUE = st.lists(st.integers(0, 10**6), unique=True, min_size=1, max_size=30)


def test_a_table():
    text = text_of("RTE.tsv", [(0,), (1,)], ["entailment", "not_entailment"])
    assert text == "index\tprediction\n0\tentailment\n1\tnot_entailment\n"


def test_records():
    assert text_of("BoolQ.jsonl", [(0,), (1,)], ["true", "false"]) == (
        '{"idx": 0, "label": "true"}\n{"idx": 1, "label": "false"}\n'
    )


def test_choices_and_entities():
    """As T5's script for submissions and jiant write them: numbers of COPA, texts of ReCoRD, capitals of WSC."""
    assert text_of("COPA.jsonl", [(5,), (6,)], ["0", "1"]) == '{"idx": 5, "label": 0}\n{"idx": 6, "label": 1}\n'
    assert text_of("ReCoRD.jsonl", [(31,)], ["1"]) == '{"idx": 31, "label": "1"}\n'
    assert text_of("WSC.jsonl", [(0,), (1,)], ["true", "false"]) == (
        '{"idx": 0, "label": "True"}\n{"idx": 1, "label": "False"}\n'
    )


def test_passages():
    numbers = [(137, 1505, 8088), (137, 1505, 8089), (137, 1506, 8095), (138, 1519, 8146)]
    first, second = map(json.loads, text_of("MultiRC.jsonl", numbers, ["0", "1", "1", "0"]).splitlines())
    questions = [
        {"idx": 1505, "answers": [{"idx": 8088, "label": 0}, {"idx": 8089, "label": 1}]},
        {"idx": 1506, "answers": [{"idx": 8095, "label": 1}]},
    ]
    assert first == {"idx": 137, "passage": {"questions": questions}}
    assert second == {"idx": 138, "passage": {"questions": [{"idx": 1519, "answers": [{"idx": 8146, "label": 0}]}]}}


@given(UNIQUE, st.data())
def test_what_is_written_is_read_back(numbers, data):
    answers = data.draw(st.lists(st.sampled_from(["0", "1"]), min_size=len(numbers), max_size=len(numbers)))
    expected = list(zip(numbers, answers))
    singles = [(number,) for number in numbers]
    header, *lines = text_of("CoLA.tsv", singles, answers).split("\n")[:-1]
    assert header.split("\t") == ["index", "prediction"]
    assert [(int(number), answer) for number, answer in (line.split("\t") for line in lines)] == expected
    records = [json.loads(line) for line in text_of("CB.jsonl", singles, answers).split("\n")[:-1]]
    assert [(record["idx"], record["label"]) for record in records] == expected


@given(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 99)), st.sampled_from("01")))
def test_every_answer_of_a_passage_is_read_back(answers):
    text = text_of("MultiRC.jsonl", list(answers), list(answers.values()))
    passages = [json.loads(line) for line in text.splitlines()]
    found = {
        (passage["idx"], question["idx"], answer["idx"]): str(answer["label"])
        for passage in passages
        for question in passage["passage"]["questions"]
        for answer in question["answers"]
    }
    assert found == answers and len({passage["idx"] for passage in passages}) == len(passages)


def test_no_answer_is_lost():
    with pytest.raises(ValueError, match="zip"):
        text_of("RTE.tsv", [(0,), (1,)], ["entailment"])


def test_numbers_of_an_example():
    assert (arity("MultiRC.jsonl"), arity("CB.jsonl"), arity("RTE.tsv")) == (3, 1, 1)
