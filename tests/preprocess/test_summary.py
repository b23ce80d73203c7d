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


def test_training_splits_that_fairseq_joins_are_told(commands):
    """It reads them up to the first number that is not there, without a word about the others."""
    names = ("train", "train1", "train3", "valid")
    files = {name: commands.write(f"{name}.tsv", f"{TEXT}{name}\ta\n") for name in names}

    def said(*names):
        splits = [f"{name}={files[name]}" for name in names]
        commands.ok("x", "--from-tsv", *splits, "--text-columns", "text", "--overwrite")
        return [line for line in commands.capsys.readouterr().out.splitlines() if "fairseq-train" in line]

    assert said("train", "valid") == []
    assert said("train", "train1", "valid") == ["fairseq-train trains on train and train1"]
    alone = "on train3 with --train-subset train3 alone"
    assert said("train3", "train", "valid") == [f"fairseq-train trains on train, {alone}"]
    assert said("train", "train3", "train1", "valid") == [f"fairseq-train trains on train and train1, {alone}"]


def test_pairs_that_a_model_has_no_room_for_are_counted(commands):
    """<s> A </s> </s> B </s> has four tokens more than the sentences."""
    pairs = [(250, 258), (250, 259), (1, 511)]
    path = commands.write("x.tsv", "a\tb\tlabel\n" + "".join(f"{'x' * a}\t{'y' * b}\t{a}\n" for a, b in pairs))
    data = commands.ok("x", "--from-tsv", f"train={path}", "--text-columns", "a", "b")
    assert [data.rows(part, "train").lengths.tolist() for part in data.inputs] == [[251, 251, 2], [259, 260, 512]]
    lines = [line.split() for line in commands.capsys.readouterr().out.splitlines()]
    header, counts = (next(line for line in lines if line[:1] == [name]) for name in ("split", "train"))
    assert counts[header.index(">512") - len(header)] == "2"  # tokens of both sentences stand before it
