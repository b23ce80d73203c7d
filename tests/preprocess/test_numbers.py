"""The numbers that benchmarks give to the examples of their test sets, which submissions need."""

import json

import pytest

from preprocess.data_folder import DataFolder
from preprocess.errors import InputError
from preprocess.tasks import TASKS, TEST_SETS

NUMBERED = {  # header of a test file, a line of it
    "CoLA": ("index\tsentence", "{}\tA."),
    "SST-2": ("index\tsentence", "{}\tA."),
    "MRPC": ("index\t#1 ID\t#2 ID\t#1 String\t#2 String", "{}\t8\t9\tA.\tB."),
    "STS-B": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2",
        "{}\tg\tf\t2012\t7\tx\ty\tA.\tB.",
    ),
    "QQP": ("id\tquestion1\tquestion2", "{}\tA.\tB."),
    "QNLI": ("index\tquestion\tsentence", "{}\tA.\tB."),
    "RTE": ("index\tsentence1\tsentence2", "{}\tA.\tB."),
    "WNLI": ("index\tsentence1\tsentence2", "{}\tA.\tB."),
    "AX": ("index\tsentence1\tsentence2", "{}\tA.\tB."),
}


@pytest.mark.parametrize("name", list(NUMBERED))
def test_numbers_of_glue(name, commands):
    header, line = NUMBERED[name]
    task = {**TASKS, **TEST_SETS}[name]
    lines = [header, *map(line.format, (0, 1, 7))]
    commands.write(f"{task.folders[0]}/{task.files['test']}", "".join(f"{line}\n" for line in lines))
    data = commands.ok(name, "--raw", commands.raw, "--splits", "test")
    assert data.numbers("test") == [(0,), (1,), (7,)] and not data.has_labels("test")
    assert commands.texts(data, "test") == ["A."] * 3


def test_numbers_in_the_entailment_form(commands):
    header, line = NUMBERED["CoLA"]
    commands.write("CoLA/test.tsv", "".join(f"{each}\n" for each in (header, *map(line.format, (0, 1, 7)))))
    assert commands.ok("CoLA", "--raw", commands.raw, "--splits", "test", "--efl").numbers("test") == [(0,), (1,), (7,)]


@pytest.mark.parametrize("number", ["x", "", "-1", "1.0", "0"])  # the last is there a second time
def test_numbers_of_glue_that_are_none(number, commands):
    commands.write("RTE/test.tsv", f"index\tsentence1\tsentence2\n0\tA.\tB.\n{number}\tC.\tD.\n1\tE.\tF.\n")
    data = commands.ok("RTE", "--raw", commands.raw, "--splits", "test", "--skip-bad")
    assert data.numbers("test") == [(0,), (1,)] and commands.texts(data, "test") == ["A.", "E."]
    assert f"skipped line 3: index {number!r} " in commands.capsys.readouterr().out


def test_numbers_of_both_test_sets_of_mnli(commands):
    for file in ("test_matched", "test_mismatched"):
        commands.write(f"MNLI/{file}.tsv", f"index\tsentence1\tsentence2\n{len(file)}\tA\tB\n")
    data = commands.ok("MNLI", "--raw", commands.raw, "--splits", "test", "test1")
    assert (data.numbers("test"), data.numbers("test1"), data.numbers("valid")) == ([(12,)], [(15,)], None)


NUMBERED_RECORDS = {  # others of SuperGLUE are in test_tasks.py
    "AX-b": {"sentence1": "A", "sentence2": "B", "idx": "5", "label": "not_entailment"},
    "AX-g": {"premise": "A", "hypothesis": "B", "idx": 5, "label": "entailment"},
    "RTE-SuperGLUE": {"premise": "A", "hypothesis": "B", "idx": 5},
}


@pytest.mark.parametrize("name", list(NUMBERED_RECORDS))
def test_numbers_of_super_glue(name, commands):
    task = {**TASKS, **TEST_SETS}[name]
    commands.write(f"{task.folders[0]}/{task.files['test']}", json.dumps(NUMBERED_RECORDS[name]) + "\n")
    data = commands.ok(name, "--raw", commands.raw, "--splits", "test")
    assert data.numbers("test") == [(5,)] and data.has_labels("test") == name.startswith("AX")
    assert sorted(data.label_names) == sorted(task.labels)


def test_a_damaged_file_of_numbers(commands):
    commands.write("RTE/test.tsv", "index\tsentence1\tsentence2\n7\tA\tB\n")
    data = commands.ok("RTE", "--raw", commands.raw, "--splits", "test")
    (data.path / "number" / "test.txt").write_text("none\n")
    with pytest.raises(InputError, match="number/test.txt"):
        data.numbers("test")
    (data.path / "sha256.txt").unlink()
    with pytest.raises(InputError, match="number/test.txt"):
        DataFolder(data.path).numbers("test")
    (data.path / "number" / "test.txt").unlink()
    with pytest.raises(InputError, match="number/test.txt"):
        data.numbers("test")
