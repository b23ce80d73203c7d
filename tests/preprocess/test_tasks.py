"""Every task of the table from files like those that are published, and the facts themselves."""

import json

import pytest

from preprocess.errors import InputError
from preprocess.tasks import SETTINGS, TASKS, TEST_SETS, find_task

METRICS = {"accuracy", "mcc", "acc_and_f1", "pearson_and_spearman"}  # fairseq's names
HEADERS = {  # as in the archives of GLUE and SNLI
    "SST-2": "sentence\tlabel",
    "QNLI": "index\tquestion\tsentence\tlabel",
    "RTE": "index\tsentence1\tsentence2\tlabel",
    "MRPC": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
    "QQP": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
    "STS-B": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
    "MNLI": "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
    "sentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
    "WNLI": "index\tsentence1\tsentence2\tlabel",
    "SNLI": "index\tcaptionID\tpairID\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
    "sentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
}


def table(task, labels, header=True, offset=0):
    """Lines of a GLUE file whose texts say where they come from."""
    names = HEADERS[task.name].lstrip("\ufeff").split("\t")
    lines = [HEADERS[task.name]] if header else []
    for number, label in enumerate(labels, start=offset):
        values = {text: f"{text} of {number}" for text in task.texts}
        values[task.label] = label
        lines.append("\t".join(values.get(name, "x") for name in names))
    return "".join(line + "\n" for line in lines)


@pytest.mark.parametrize("name", list(HEADERS))
def test_glue(name, commands):
    task = TASKS[name]
    labels = ["5.000", "1.25", "0"] if task.regression else [task.labels[-1], task.labels[0], task.labels[-1]]
    for split, file in task.files.items():
        if not split.startswith("test"):
            commands.write(f"{name}/{file}", table(task, labels))
    data = commands.ok(name, "--raw", commands.raw)
    assert data.splits == [split for split in task.files if not split.startswith("test")]
    assert data.inputs == ("input0", "input1")[: len(task.texts)]
    for split in data.splits:
        for part, text in zip(data.inputs, task.texts):
            assert commands.texts(data, split, part) == [f"{text} of {number}" for number in range(3)]
        if task.regression:
            assert data.targets(split) == ["1", "0.25", "0"]
        else:
            assert commands.labels(data, split) == labels
            assert data.label_names[0] == labels[0]  # the most frequent in the training set


@pytest.mark.parametrize("name", ["CR", "MR", "SUBJ", "MPQA"])
def test_sentences_of_lm_bff(name, commands):
    folder = f"original/{name.lower()}"
    commands.write(f"{folder}/train.csv", '0,plain\n1,"with, comma"\n1,"with ""quotes"""\n')
    commands.write(f"{folder}/test.csv", "0,a test\n")
    data = commands.ok(name, "--raw", commands.raw)
    assert data.splits == ["train", "valid", "test"]
    assert commands.texts(data, "train") == ["plain", "with, comma", 'with "quotes"']
    assert commands.texts(data, "valid") == commands.texts(data, "test") == ["a test"]
    assert data.label_names == ["1", "0"]
    kept = commands.ok(name, "--raw", commands.raw, "--csv-quotes", "keep", "--overwrite")
    assert commands.texts(kept, "train") == ["plain", '"with, comma"', '"with ""quotes"""']


def test_cola_has_a_header_in_its_test_file_only(commands):
    for file in ("train.tsv", "dev.tsv"):
        commands.write(f"CoLA/{file}", "gj04\t1\t\tA sentence.\nks08\t0\t*\tA bad sentence one.\n")
    commands.write("CoLA/test.tsv", "index\tsentence\n0\tA test.\n")
    data = commands.ok("CoLA", "--raw", commands.raw)
    assert commands.texts(data, "train") == ["A sentence.", "A bad sentence one."]
    assert commands.labels(data, "valid") == ["1", "0"]
    assert commands.texts(data, "test") == ["A test."] and not data.has_labels("test")


def test_snli_leaves_out_pairs_without_a_gold_label(commands):
    for file in ("train.tsv", "dev.tsv"):
        commands.write(f"SNLI/{file}", table(TASKS["SNLI"], ["-", "neutral", "-", "entailment"]))
    data = commands.ok("SNLI", "--raw", commands.raw)
    assert commands.texts(data, "train") == ["sentence1 of 1", "sentence1 of 3"]


def test_sts_b_lines_may_have_more_fields_at_their_end(commands):
    for file in ("train.tsv", "dev.tsv"):
        commands.write(f"STS-B/{file}", table(TASKS["STS-B"], ["2.5"]).replace("2.5\n", "2.5\tlicence\n"))
    assert commands.ok("STS-B", "--raw", commands.raw).targets("valid") == ["0.5"]


SUPER_GLUE = {
    "CB": ({"premise": "P", "hypothesis": "H", "label": "neutral", "idx": 0}, [("P", "H", "neutral")]),
    "BoolQ": ({"question": "q", "passage": "p", "label": True, "idx": 0}, [("p", "q", "true")]),
    "WiC": (
        {"word": "place", "sentence1": "a place", "sentence2": "to place", "label": False, "start1": 2},
        [("place: a place", "to place", "false")],
    ),
    "COPA": (
        {"premise": "It fell.", "choice1": "one", "choice2": "two", "question": "cause", "label": 1},
        [("It fell. What was the cause?", "one", "0"), ("It fell. What was the cause?", "two", "1")],
    ),
    "MultiRC": (
        {
            "passage": {
                "text": "P",
                "questions": [
                    {"question": "Q1?", "answers": [{"text": "a", "label": 0}, {"text": "b", "label": 1}]},
                    {"question": "Q2?", "answers": [{"text": "c", "label": 1}]},
                ],
            }
        },
        [("P", "Q1? a", "0"), ("P", "Q1? b", "1"), ("P", "Q2? c", "1")],
    ),
}


@pytest.mark.parametrize("name", list(SUPER_GLUE))
def test_super_glue(name, commands):
    record, expected = SUPER_GLUE[name]
    for file in ("train.jsonl", "val.jsonl"):
        commands.write(f"{name}/{file}", json.dumps(record) + "\n")
    unlabelled = json.loads(
        json.dumps(record), object_hook=lambda part: {k: v for k, v in part.items() if k != "label"}
    )
    commands.write(f"{name}/test.jsonl", json.dumps(unlabelled) + "\n")
    data = commands.ok(name, "--raw", commands.raw)
    for split in ("train", "valid"):
        found = zip(*(commands.texts(data, split, part) for part in data.inputs), commands.labels(data, split))
        assert list(found) == expected
    assert len(data.rows("input0", "test")) == len(expected) and not data.has_labels("test")


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


def test_numbers_of_both_test_sets_of_mnli(commands):
    for file in ("test_matched", "test_mismatched"):
        commands.write(f"MNLI/{file}.tsv", f"index\tsentence1\tsentence2\n{len(file)}\tA\tB\n")
    data = commands.ok("MNLI", "--raw", commands.raw, "--splits", "test", "test1")
    assert (data.numbers("test"), data.numbers("test1"), data.numbers("valid")) == ([(12,)], [(15,)], None)


ANSWERS = [{"text": "a", "idx": 8088}, {"text": "b", "idx": 8089}]
NUMBERED_RECORDS = {
    "CB": ({"premise": "P", "hypothesis": "H", "idx": 5}, [(5,)]),
    "WiC": ({"word": "w", "sentence1": "a", "sentence2": "b", "idx": 5}, [(5,)]),
    "COPA": ({"premise": "P", "choice1": "a", "choice2": "b", "question": "effect", "idx": 5}, [(5,), (5,)]),
    "MultiRC": (
        {"idx": 137, "passage": {"text": "P", "questions": [{"question": "Q", "idx": 1505, "answers": ANSWERS}]}},
        [(137, 1505, 8088), (137, 1505, 8089)],
    ),
    "AX-b": ({"sentence1": "A", "sentence2": "B", "idx": "5", "label": "not_entailment"}, [(5,)]),
    "AX-g": ({"premise": "A", "hypothesis": "B", "idx": 5, "label": "entailment"}, [(5,)]),
    "RTE-SuperGLUE": ({"premise": "A", "hypothesis": "B", "idx": 5}, [(5,)]),
}


@pytest.mark.parametrize("name", list(NUMBERED_RECORDS))
def test_numbers_of_super_glue(name, commands):
    record, numbers = NUMBERED_RECORDS[name]
    task = {**TASKS, **TEST_SETS}[name]
    commands.write(f"{task.folders[0]}/{task.files['test']}", json.dumps(record) + "\n")
    data = commands.ok(name, "--raw", commands.raw, "--splits", "test")
    assert data.numbers("test") == numbers and data.has_labels("test") == name.startswith("AX")
    assert sorted(data.label_names) == sorted(task.labels)


def test_numbers_in_some_lines_only(commands):
    commands.write(
        "CB/test.jsonl", '{"premise": "P", "hypothesis": "H", "idx": 0}\n{"premise": "P", "hypothesis": "H"}'
    )
    assert "CB/test.jsonl has a number in some lines only" in commands.fails(
        "CB", "--raw", commands.raw, "--splits", "test"
    )


@pytest.mark.parametrize("idx", ['"one"', "-1", "1.5", "true", "[0]"])
def test_numbers_that_are_none(idx, commands):
    commands.write("CB/test.jsonl", f'{{"premise": "P", "hypothesis": "H", "idx": {idx}}}\n')
    error = commands.fails("CB", "--raw", commands.raw, "--splits", "test", "--strict")
    assert "CB/test.jsonl line 1: not such a record (idx " in error


def test_a_damaged_file_of_numbers(commands):
    commands.write("RTE/test.tsv", "index\tsentence1\tsentence2\nnone\tA\tB\n")
    data = commands.ok("RTE", "--raw", commands.raw, "--splits", "test")
    with pytest.raises(InputError, match="number/test.txt is damaged, or holds something else than numbers"):
        data.numbers("test")
    (data.path / "number" / "test.txt").write_text("0\n")
    with pytest.raises(InputError, match="number/test.txt is not what preprocess wrote"):
        data.numbers("test")
    (data.path / "number" / "test.txt").unlink()
    with pytest.raises(InputError, match="number/test.txt is missing"):
        data.numbers("test")


def test_a_test_set_must_be_there(commands):
    assert "has no test split of AX (diagnostic/diagnostic.tsv or" in commands.fails("AX", "--raw", commands.raw)


def test_facts_are_complete():
    assert len(TASKS) == 20
    for task in TASKS.values():
        assert task.metric in METRICS and task.settings in SETTINGS and len(task.texts) in (1, 2)
        assert task.regression == (task.metric == "pearson_and_spearman")
    assert not TASKS.keys() & TEST_SETS.keys() and all(list(task.files) == ["test"] for task in TEST_SETS.values())
    assert {name for name, task in TASKS.items() if task.settings == "large"} == {"IMDB", "SST-2", "QNLI", "QQP"}


def test_names():
    assert find_task("sts-b") is TASKS["STS-B"]
    with pytest.raises(InputError, match="task MPRC is unknown: did you mean MRPC"):
        find_task("MPRC")
