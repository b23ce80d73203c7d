"""Own data: --from-tsv, -csv, -jsonl, -hub, what changes rows (--swap-pairs, --efl), and what is said of it."""

import gzip
import hashlib
import types

import pytest

from preprocess.checksums import content_digest
from preprocess.splits import EFL_DESCRIPTIONS
from tests.preprocess.commands import FakeDataset, install_hub

PAIRS = "a\tb\tlabel\none a\tone b\t4\ntwo a\ttwo b\t1\n"
BY_NUMBER = ["--no-header", "--text-columns", "1", "--label-column", "2"]
BEHIND = ["--no-header", "--text-columns", "2", "--label-column", "1"]
TEXT, SCORES = ["--text-columns", "text"], ["--text-columns", "text", "--regression"]
MORE = [("good", "1", "id7"), ("bad", "0", "id8"), ("short", "1"), ("long", "1", "id9", "more")]
JSON = '{"text": "one", "label": 1}\n'
DATES = ["20190514", "20190527", "20190601"]
READ = [  # a file, options, the texts, the labels or scores, lines that are skipped
    ("x.csv", 'text,label\r\n"two\r\nlines",a\r\nnext,b\r\n', TEXT, ["two\nlines", "next"], ["a", "b"], []),
    ("x.csv", 'text, label\n"one, two", a\n"a ""b""", b\n', TEXT, ["one, two", 'a "b"'], ["a", "b"], []),
    ("x.csv", '1, "one, two"\n0, "three, four"\n', BEHIND, ["one, two", "three, four"], ["1", "0"], []),
    ("x.csv", 'text,label\nfine,1\n"so" it is,0\nbad,0\n', TEXT, ["fine", "bad"], ["1", "0"], [3]),
    ("x.tsv.gz", gzip.compress(b"a\tone\nb\ttwo\n", mtime=0), BEHIND, ["one", "two"], ["a", "b"], []),
    ("x.tsv", "".join("\t".join(row) + "\n" for row in MORE), BY_NUMBER, ["good", "bad"], ["1", "0"], [3, 4]),
    ("x.tsv", '\ufefftext\tlabel\r\n  "a" \u00e9  \t1\r\n\t0\r\n', TEXT, ['"a" \u00e9', ""], ["1", "0"], []),
    # byte-order marks of joined files
    ("x.jsonl", 2 * f"\ufeff{JSON}", TEXT, ["one", "one"], ["1", "1"], []),
    ("x.jsonl", JSON + JSON.replace("1", "true") + "\n\n", TEXT, ["one", "one"], ["1", "true"], []),
    # scores have six digits, as in the published folders, and more where they lie close together
    ("x.tsv", "text\tlabel\na\t2.33333333333333\nb\t4.75\n", [*SCORES, "5"], ["a", "b"], ["0.466667", "0.95"], []),
    ("x.tsv", "text\tlabel\n" + "".join(f"a\t{date}\n" for date in DATES), SCORES, ["a"] * 3, DATES, []),
    ("x.tsv", "text\tlabel\n" + 2 * "a\t0.3333333333\n", SCORES, ["a"] * 2, ["0.333333"] * 2, []),
]


@pytest.mark.parametrize(("name", "content", "options", "texts", "labels", "skipped"), READ)
def test_what_is_read(name, content, options, texts, labels, skipped, commands):
    data = commands.own(name, content, *options, *([] if skipped else ["--strict"]))
    assert commands.texts(data, "train") == texts
    assert (data.targets("train") if data.regression else commands.labels(data, "train")) == labels
    printed = commands.capsys.readouterr().out
    assert ("skipped" in printed) == bool(skipped) and all(f"line {line}: " in printed for line in skipped)


def test_classes_by_frequency_or_in_the_order_given(commands):
    path = commands.write("x.csv", "text,label\nfine,yes\nso,no\nbad,no\n")
    files = ["--from-csv", f"valid={path}", f"train={path}", *TEXT]
    assert commands.ok("x", *files).label_names == ["no", "yes"]
    ordered = commands.ok("x", *files, "--labels", "yes", "no", "maybe", "--overwrite")
    assert ordered.label_names == ["yes", "no", "maybe"] and commands.labels(ordered, "train") == ["yes", "no", "no"]


def test_a_tsv_that_is_quoted_as_csv(commands):
    """As pandas and spreadsheets write it."""
    content = 'text\tlabel\n"a ""b"" c"\t1\n"so" it "is"\t0\n"""d"""\t0\n""\t1\n'
    assert "2 lines, the first 2," in (commands.own("x.tsv", content, *TEXT).path / "preprocess.log").read_text()


def test_swapped_pairs_follow_the_pairs(commands):
    path = commands.write("x.tsv", f"{PAIRS}broken\n")
    options = ["--text-columns", "a", "b", "--swap-pairs", "append"]
    data = commands.ok("x", "--from-tsv", f"train={path}", f"valid={path}", *options)
    assert commands.texts(data, "train") == ["one a", "two a", "one b", "two b"]
    assert commands.texts(data, "train", "input1") == ["one b", "two b", "one a", "two a"]
    assert commands.labels(data, "train") == ["4", "1", "4", "1"]
    assert commands.texts(data, "valid") == ["one a", "two a"]
    assert data.left_out("valid") == [(2, 4)] and data.left_out("train") == []  # one place is not enough


@pytest.mark.parametrize("described", ["b", "abc"])
def test_efl(described, commands, monkeypatch):
    monkeypatch.setitem(EFL_DESCRIPTIONS, "x", {name: f"It is {name}" for name in described})
    data = commands.own("x.tsv", "text\tlabel\none\tb\nbroken\n", *TEXT, "--labels", "a", "b", "c", "--efl")
    assert commands.texts(data, "train") == ["one"] * len(described)
    assert commands.texts(data, "train", "input1") == [f"It is {name}" for name in described]
    assert commands.labels(data, "train") == ["entailment" if name == "b" else "not_entailment" for name in described]
    assert data.label_names == ["not_entailment", "entailment"] and data.left_out("train") == [(len(described), 3)]


def test_pairs_are_cut_and_counted_whichever_sentence_is_cut_empty_or_long(commands):
    """<s> A </s> </s> B </s> has four tokens more than the sentences."""

    def counts(pairs, *options):
        text = "a\tb\tlabel\n" + "".join(f"{'x' * a}\t{'y' * b}\t{a}\n" for a, b in pairs)
        data = commands.own("x.tsv", text, "--text-columns", "a", "b", *options)
        header, values = (line.split() for line in commands.capsys.readouterr().out.split("\n")[1:3])
        return data, dict(zip(header[::-1], values[::-1]))  # tokens of both sentences stand in the middle

    data, found = counts([(6, 2), (2, 6), (0, 2), (2, 0)], "--max-length", "3")
    assert commands.texts(data, "train") == ["xxx", "xx", "", "xx"]
    assert (found["truncated"], found["empty"], found[">512"]) == ("2", "2", "0")
    data, found = counts([(250, 258), (250, 259), (1, 511)], "--overwrite")
    assert [data.rows(part, "train").lengths.tolist() for part in data.inputs] == [[251, 251, 2], [259, 260, 512]]
    assert found[">512"] == "2"


def test_several_workers_and_chunks_write_the_same(commands, monkeypatch):
    monkeypatch.setattr("preprocess.build.CHUNK", 3)
    content = "text\tlabel\n" + "".join(f"{'w ' * (i % 5)}{i}\t{i % 3}\n" for i in range(20))
    two = ("--workers", "2", "--overwrite")
    digests = [content_digest(commands.own("x.tsv", content, *TEXT, *more).path) for more in ((), two)]
    assert digests[0] == digests[1]


def table(*labels: str) -> str:
    return "text\tlabel\n" + "".join(f"sentence {number}\t{label}\n" for number, label in enumerate(labels))


def test_names_that_are_alike_are_classes_of_their_own(commands):
    labels = ["1", "10", "1.5", "1e0", "-1", "x1", "x01", "12345678901234567890", "12345678901234567891"]
    for names, options in ((labels, []), (["1", "1.0", "yes", "Yes"], ["--labels", "Yes", "1", "1.0", "yes"])):
        data = commands.own("x.tsv", table(*names), *TEXT, *options, "--overwrite")
        assert commands.labels(data, "train") == names


@pytest.mark.parametrize(
    ("kind", "hidden", "options"),
    [  # as `datasets` writes it, and as people do who keep its labels to themselves
        ("csv", "text,label\nc,-1\nd,-1\n", []),
        ("csv", "text,label\nc,-1.0\nd,-1.0\n", ["--regression", "5"]),
        ("tsv", "text\tlabel\nc\t\nd\t\n", []),
        ("jsonl", '{"text": "c", "label": -1}\n{"text": "d", "label": -1}\n', []),
    ],
)
def test_a_test_file_whose_labels_are_hidden(commands, kind, hidden, options):
    known = commands.write(f"train.{kind}", hidden.replace("-1", "1").replace("\t\n", "\t1\n"))
    files = [f"--from-{kind}", f"train={known}", f"test={commands.write(f'test.{kind}', hidden)}"]
    data = commands.ok("x", *files, *TEXT, *options)
    assert commands.texts(data, "test") == ["c", "d"] and not data.has_labels("test") and data.has_labels("train")


@pytest.mark.parametrize(
    ("features", "labels", "options", "found"),
    [
        ({"label": types.SimpleNamespace(names=["neg", "pos"])}, {"train": [1, 0], "test": [-1]}, [], ["pos", "neg"]),
        # glue/stsb has -1.0 for every score of its test set
        ({"label": object()}, {"train": [2.5, -1.0], "test": [-1.0, -1.0]}, ["--regression", "5"], ["0.5", "-0.2"]),
    ],
)
def test_hub(features, labels, options, found, commands, monkeypatch):
    """The interface of `datasets` that is used."""
    splits = {}
    for split, values in labels.items():
        splits[split] = FakeDataset({"text": f"{split} {number}", "label": it} for number, it in enumerate(values))
        splits[split].features = features
    install_hub(monkeypatch, lambda path, config, split: {("d", "c"): splits}[path, config][split])
    data = commands.ok("x", "--from-hub", "d:c", "--splits", "train=train", "test=test", *TEXT, *options)
    assert commands.texts(data, "train") == ["train 0", "train 1"] and commands.texts(data, "test")[0] == "test 0"
    assert (data.targets("train") if options else commands.labels(data, "train")) == found
    assert not data.has_labels("test")


def test_splits_that_are_trained_on_are_told(commands):
    """A copy by its bytes, also a compressed one; fairseq joins training splits up to the first missing number."""
    names = ("train", "train3", "train1", "test")
    files = [f"{name}={commands.write(f'{name}.tsv', table('a', 'b', *'a' * at))}" for at, name in enumerate(names)]
    copy = commands.write("dev.tsv.gz", gzip.compress(table("a", "b").encode()))
    commands.ok("x", "--from-tsv", *files, f"valid={copy}", *TEXT)
    said = commands.capsys.readouterr().out
    assert "\nfairseq-train trains on train and train1, on train3 with --train-subset train3 alone\n" in said
    assert "\nvalid is the text of train: its scores tell nothing about other sentences\n" in said
    assert "test is the text" not in said


def test_log_and_facts_say_what_was_read(commands):
    path = commands.write("x.tsv", table("1", "2") + "broken\n")
    own = ["--from-tsv", f"train={path}", *TEXT]
    data = commands.ok("x", *own)
    log = (data.path / "preprocess.log").read_text(encoding="utf-8")
    assert "command: python -m preprocess x --from-tsv" in log and f"malformed: {path} line 4: " in log
    assert f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()} {path}" in log
    fingerprint, vocab = (facts := data.facts()).pop("vocab_sha256"), commands.vocab
    assert facts == {"task": "x", "bpe": "gpt2", "vocab": str(vocab.resolve()), "scale": None, "max_length": None}
    (vocab / "vocab.bpe").write_text((vocab / "vocab.bpe").read_text() + "#version: other\n")
    facts = commands.ok("y", *own, "--regression", "5").facts()
    assert facts["vocab_sha256"] != fingerprint and facts["scale"] == 5
