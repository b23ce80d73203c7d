"""JSON of requests: what is asked, or one line that says what is wrong."""

import json

import pytest

from fairseq_idpg.serving.questions import Question, read_question
from preprocess.errors import InputError


def read(asked) -> Question:
    return read_question(asked if isinstance(asked, bytes) else json.dumps(asked).encode(), most_texts=3)


def test_questions():
    assert read({"texts": []}) == Question([])
    pair = {"sentence1": "a", "sentence2": "b"}
    assert read({"texts": ["a", ["b", "c"], pair]}).texts == ["a", ("b", "c"), ("a", "b")]
    asked = read({"texts": ["é"], "tasks": ["x", "y", "x"], "prompts": True, "words": 7})
    assert asked == Question(["é"], ("x", "y"), True, 7)
    assert read({"texts": ["a"], "tasks": "x", "prompts": None}) == Question(["a"], ("x",))
    bad = read(b'{"texts": ["a", 3, "\\ud800"]}').texts
    assert bad[0] == "a" and all(isinstance(text, InputError) for text in bad[1:])


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (b'{"texts": ["\xff"]}', "JSON"),
        (b"[" * 100_000, "JSON"),
        (b'{"texts": ["a"], "texts": ["b"]}', "twice"),
        ({"texts": "a"}, "texts"),
        ({"texts": ["a"], "task": "x"}, "'task'"),
        ({"texts": ["a"], "tasks": []}, "tasks"),
        ({"texts": ["a"], "prompts": 3}, "prompts 3"),
        ({"texts": ["a"], "prompts": True, "words": 0}, "words 0"),
    ],
)
def test_what_is_no_question(asked, named):
    with pytest.raises(InputError, match=named):
        read(asked)
