"""Test files of one's own whose labels somebody keeps to himself."""

import pytest

HIDDEN = {  # a test set as `datasets` writes it, and as people do who keep its labels to themselves
    "csv": "text,label\nc,-1\nd,-1\n",
    "tsv": "text\tlabel\nc\t\nd\t\n",
    "jsonl": '{"text": "c", "label": -1}\n{"text": "d", "label": -1}\n',
}


@pytest.mark.parametrize("kind", list(HIDDEN))
@pytest.mark.parametrize("options", [["--labels", "0", "1"], [], ["--regression", "5"]])
def test_a_test_file_whose_labels_are_hidden(commands, kind, options):
    known = commands.write(f"train.{kind}", HIDDEN[kind].replace("-1", "1").replace("\t\n", "\t1\n"))
    hidden = commands.write(f"test.{kind}", HIDDEN[kind])
    files = [f"--from-{kind}", f"train={known}", f"test={hidden}"]
    data = commands.ok("x", *files, "--text-columns", "text", *options)
    assert commands.texts(data, "test") == ["c", "d"] and not data.has_labels("test") and data.has_labels("train")
    assert "labels of test: none" in commands.capsys.readouterr().out.split("\n")


def test_scores_of_minus_one_that_are_hidden(commands):
    path, hidden = commands.write("x.tsv", "t\tlabel\na\t2.5\n"), commands.write("h.tsv", "t\tlabel\na\t-1.0\n")
    files = ["--from-tsv", f"train={path}", f"test={hidden}", "--text-columns", "t", "--regression"]
    assert not commands.ok("x", *files).has_labels("test")


def test_a_class_that_looks_like_a_hidden_label(commands):
    path, other = commands.write("x.tsv", "t\tlabel\na\t1\nb\t-1\n"), commands.write("y.tsv", "t\tlabel\nc\t-1\n")
    data = commands.ok("x", "--from-tsv", f"train={path}", f"test={other}", "--text-columns", "t")
    assert commands.labels(data, "test") == ["-1"]
