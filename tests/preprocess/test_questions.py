"""Which examples answer one question: written, read back, refused when damaged, and drawn together."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preprocess.checksums import content_digest, write_checksums
from preprocess.data_folder import DataFolder, check_split
from preprocess.errors import InputError
from preprocess.few_shot import few_shot, select_rows
from preprocess.questions import AnswerText, parse_questions, question_line
from tests.folders import write_folder, write_questions

SCORES = st.floats(0, 1)
QUESTIONS, EACH = 12, 2
SPLITS = {"train": QUESTIONS * EACH, "valid": 8}


@given(st.lists(st.tuples(st.integers(0, 10**9), st.text(), SCORES, SCORES), min_size=1))
def test_what_is_written_is_read_back(answers):
    lines = [question_line(number, AnswerText(*answer)) for number, *answer in answers]
    assert all(line.count("\n") == 1 for line in lines)
    found = parse_questions("".join(lines).split("\n")[:-1])
    expected = [(number, " ".join(text.split()), em, f1) for number, text, em, f1 in answers]
    assert list(zip(found.number, found.texts, found.em, found.f1)) == expected


@pytest.fixture
def folder(tmp_path):
    made = write_folder(tmp_path / "COPA-bin", splits=SPLITS)
    for split, count in SPLITS.items():
        write_questions(made, split, [row // EACH for row in range(count)])
    return made


@pytest.mark.parametrize("text", ["", "0\n1", "9" * 30 + "\n", "0\t1\t1\tx\n0\n", "0\t2\t1\tx\n"])
def test_a_damaged_file(text, folder):
    (folder / "question" / "valid.tsv").write_text(text)
    with pytest.raises(InputError, match="question/valid.tsv"):
        DataFolder(folder).questions("valid")


def test_as_many_as_examples_and_those_that_were_written(folder):
    before = content_digest(folder)
    write_checksums(folder)
    for numbers, named in (([0, 0], "label 8, question 2"), ([0] * 8, "question/valid.tsv")):
        write_questions(folder, "valid", numbers)
        assert content_digest(folder) != before
        with pytest.raises(InputError, match=named):
            check_split(DataFolder(folder), "valid")


@settings(max_examples=30)
@given(k=st.integers(1, 8), dev=st.integers(1, 4), seed=st.integers(0, 99), draw=st.randoms(use_true_random=False))
def test_questions_are_drawn_whole(k, dev, seed, draw, tmp_path_factory):
    """Also where a question's examples stand apart, as those of exchanged pairs do."""
    made = write_folder(tmp_path_factory.mktemp("drawn") / "x-bin", splits=SPLITS)
    numbers = sorted((row // EACH for row in range(SPLITS["train"])), key=lambda number: draw.random())
    write_questions(made, "train", numbers)
    data, numbers = DataFolder(made), np.array(numbers)
    train, valid = select_rows(data, k, dev, seed, per_class=False)
    for rows, count in ((train, k), (valid, dev)):
        drawn = dict.fromkeys(numbers[rows].tolist())
        assert len(drawn) == count
        assert rows.tolist() == [row for number in drawn for row in np.flatnonzero(numbers == number)]
    assert not set(numbers[train]) & set(numbers[valid])


def test_a_few_shot_copy_knows_its_questions(folder, tmp_path):
    write_questions(folder, "train", [row // EACH for row in range(SPLITS["train"])], [1] * SPLITS["train"])
    few_shot(DataFolder(folder), 5, 3, 1, per_class=False, out=tmp_path / "few")
    made = DataFolder(tmp_path / "few")
    record = json.loads((tmp_path / "few" / "few_shot.json").read_text())
    for split, count in (("train", 5), ("valid", 3)):
        assert check_split(made, split) == EACH * count and made.questions(split).count == count
        assert made.questions(split).texts == tuple(f"entity {row}" for row in record[f"{split}_rows"])
    assert made.questions("test").number.tolist() == DataFolder(folder).questions("valid").number.tolist()
