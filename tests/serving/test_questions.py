"""JSON of requests: what is asked, or one line that says what is wrong."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.serving.questions import Question, read_question
from preprocess.errors import InputError, one_line


def read(asked) -> Question:
    return read_question(asked if isinstance(asked, bytes) else json.dumps(asked).encode(), most_texts=3)


def test_questions():
    assert read({"texts": []}) == Question([])
    pair = {"sentence1": "a", "sentence2": "b"}
    assert read({"texts": ["a", ["b", "c"], pair]}).texts == ["a", ("b", "c"), ("a", "b")]
    asked = read({"texts": ["é"], "tasks": ["x", "y", "x"], "prompts": True, "words": 7})
    assert asked == Question(["é"], ("x", "y"), True, 7)
    assert read({"texts": ["a"], "tasks": "x", "prompts": None}) == Question(["a"], ("x",))
    assert asked.way == asked._replace(texts=[]).way != read({"texts": ["é"]}).way


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (b'{"texts": ["\xff"]}', "JSON"),
        (b"[" * 100_000, "JSON"),
        (b'{"texts": ["a"], "words": NaN}', "NaN"),
        (b'{"texts": ["a"], "texts": ["b"]}', "twice"),
        (b'{"texts": ["\\ud800"]}', "text 1"),
        (["a"], "JSON"),
        ({"texts": "a"}, "texts"),
        ({"texts": ["a", 3]}, "text 2"),
        ({"texts": ["a", ["b", "c", "d"]]}, "text 2"),
        ({"texts": [""]}, "text 1"),
        ({"texts": [["a", " "]]}, "text 1"),
        ({"texts": ["a"] * 4}, "give 3"),
        ({"texts": ["a"], "task": "x"}, "'task'"),
        ({"texts": ["a"], "tasks": []}, "tasks"),
        ({"texts": ["a"], "tasks": [3]}, "tasks"),
        ({"texts": ["a"], "prompts": 3}, "prompts 3"),
        ({"texts": ["a"], "prompts": True, "words": 0}, "words 0"),
        ({"texts": ["a"], "prompts": True, "words": True}, "words True"),
    ],
)
def test_what_is_no_question(asked, named):
    with pytest.raises(InputError, match=named):
        read(asked)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=9,
)
NAMED = st.fixed_dictionaries({}, optional={key: VALUES for key in ("texts", "tasks", "prompts", "words", "other")})


@given(st.binary(max_size=99) | (NAMED | VALUES).map(lambda value: json.dumps(value).encode()))
def test_anything_is_a_question_or_refused_in_one_line(body):
    try:
        question = read_question(body, most_texts=3)
    except InputError as error:
        assert 0 < len(one_line(str(error))) < 300
    else:
        assert len(question.texts) <= 3 and all(question.texts) and 1 <= question.words <= 100
