"""Labels: one class has one spelling; what a run says of those that it found."""

from preprocess.labels import SHOWN

COLUMNS = ["--text-columns", "text"]


def table(*labels: str) -> str:
    return "text\tlabel\n" + "".join(f"sentence {number}\t{label}\n" for number, label in enumerate(labels))


def test_names_that_are_alike_are_classes_of_their_own(commands):
    labels = ["1", "10", "1.5", "1e0", "-1", "x1", "x01", "v1.0", "12345678901234567890", "12345678901234567891"]
    for names, options in ((labels, []), (["1", "1.0", "yes", "Yes"], ["--labels", "Yes", "1", "1.0", "yes"])):
        path = commands.write("x.tsv", table(*names))
        data = commands.ok("x", "--from-tsv", f"train={path}", *COLUMNS, *options, "--overwrite")
        assert commands.labels(data, "train") == names


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
