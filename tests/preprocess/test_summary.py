"""What a run says about its data, beside the counts that other tests read."""

import gzip

TEXT = "text\tlabel\nfine\ta\nbad\tb\n"


def test_a_split_that_was_trained_on_is_told(commands):
    """By its bytes: a copy under another name, and a compressed one, are the same text."""
    train, copy = commands.write("train.tsv", TEXT), commands.write("dev.tsv.gz", gzip.compress(TEXT.encode()))
    other = commands.write("test.tsv", TEXT.replace("fine", "good"))
    files = ["--from-tsv", f"train={train}", f"valid={copy}", f"test={other}"]
    commands.ok("x", *files, "--text-columns", "text")
    said = commands.capsys.readouterr().out
    assert "valid is the text of train: its scores tell nothing about other sentences\n" in said
    assert "test is the text" not in said
