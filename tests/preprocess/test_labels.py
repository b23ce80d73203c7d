"""Labels: one class has one spelling; what a run says of those that it found."""

import pytest

from preprocess.labels import SHOWN

COLUMNS = ["--text-columns", "text"]


def table(*labels: str) -> str:
    return "text\tlabel\n" + "".join(f"sentence {number}\t{label}\n" for number, label in enumerate(labels))


def test_names_that_are_alike_are_classes_of_their_own(commands):
    labels = ["1", "10", "1.5", "1e0", "-1", "x1", "x01", "v1.0", "12345678901234567890", "12345678901234567891"]
    for names, options in ((labels, []), (["1", "1.0", "yes", "Yes"], ["--labels", "Yes", "1", "1.0", "yes"])):
        data = commands.own("x.tsv", table(*names), *COLUMNS, *options, "--overwrite")
        assert commands.labels(data, "train") == names


def test_the_labels_found_are_told(commands):
    """A header that is read as an example, or scores without --regression, show in them."""
    by_number = ["--no-header", "--text-columns", "1", "--label-column", "2"]
    data = commands.own("x.tsv", table("a", "b", "b"), *by_number)
    told = "labels of train: b: 2; a: 1; label: 1\n"
    assert told in commands.capsys.readouterr().out
    assert told in (data.path / "preprocess.log").read_text(encoding="utf-8")
    scores = table(*(f"{number / 4}" for number in range(SHOWN + 3)))
    commands.own("x.tsv", scores, *COLUMNS, "--overwrite")
    assert "; 2.25: 1; and 3 classes more\n" in commands.capsys.readouterr().out
    commands.own("x.tsv", scores, *COLUMNS, "--overwrite", "--regression")
    assert "labels of train: 0 to 3\n" in commands.capsys.readouterr().out


# --- test files whose labels somebody keeps to himself ----------------------------------------------

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
