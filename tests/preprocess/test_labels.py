"""Labels: one class has one spelling; what a run says of those that it found."""

import pytest

from preprocess.labels import SHOWN

COLUMNS = ["--text-columns", "text"]


def table(*labels: str) -> str:
    return "text\tlabel\n" + "".join(f"sentence {number}\t{label}\n" for number, label in enumerate(labels))


@pytest.mark.parametrize(
    ("first", "second"), [("1", "1.0"), ("01", "1"), ("-2", "-2.00"), ("yes", "Yes"), ("caf\xe9", "cafe\u0301")]
)
def test_two_spellings_of_a_class_are_refused(commands, first, second):
    path = commands.write("x.tsv", table(first, "other", second))
    said = commands.fails("x", "--from-tsv", f"train={path}", *COLUMNS)
    assert f"{path} line 4: label {second!a} is {first!a} in another spelling" in said and "--labels" in said
    data = commands.ok("x", "--from-tsv", f"train={path}", *COLUMNS, "--labels", first, second, "other")
    assert commands.labels(data, "train") == [first, "other", second]


def test_names_that_are_alike_are_classes_of_their_own(commands):
    labels = ["1", "10", "1.5", "1e0", "-1", "x1", "x01", "v1.0", "12345678901234567890", "12345678901234567891"]
    path = commands.write("x.tsv", table(*labels))
    data = commands.ok("x", "--from-tsv", f"train={path}", *COLUMNS)
    assert commands.labels(data, "train") == labels


def test_the_labels_found_are_told(commands):
    """A header that is read as an example, or scores without --regression, show in them."""
    path = commands.write("x.tsv", table("a", "b", "b"))
    data = commands.ok("x", "--from-tsv", f"train={path}", "--no-header", "--text-columns", "1", "--label-column", "2")
    told = "labels of train: b: 2; a: 1; label: 1\n"
    assert told in commands.capsys.readouterr().out
    assert told in (data.path / "preprocess.log").read_text(encoding="utf-8")
    scores = commands.write("scores.tsv", table(*(f"{number / 4}" for number in range(SHOWN + 3))))
    commands.ok("x", "--from-tsv", f"train={scores}", *COLUMNS, "--overwrite")
    assert "; 2.25: 1; and 3 classes more\n" in commands.capsys.readouterr().out
    commands.ok("x", "--from-tsv", f"train={scores}", *COLUMNS, "--overwrite", "--regression")
    assert "labels of train: 0 to 3\n" in commands.capsys.readouterr().out


def test_a_scale_that_makes_infinite_scores(commands):
    path = commands.write("x.tsv", table("0", "1e300"))
    said = commands.fails("x", "--from-tsv", f"train={path}", *COLUMNS, "--regression", "1e-300")
    assert "--regression 1e-300: 1e300 divided by it is too large" in said
