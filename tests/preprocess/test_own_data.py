"""Own data: --from-tsv, --from-csv, --from-jsonl, and what changes rows: --swap-pairs, --efl."""

import gzip
import hashlib
import json

import pytest

from preprocess.transforms import EFL_DESCRIPTIONS

PAIRS = "id\tfirst\tsecond\tscore\n1\tone a\tone b\t4\n2\ttwo a\ttwo b\t1\n"
SENTENCES = 'text,label\nfine,yes\n"so, so",no\nbad,no\n'


BY_NUMBER = ["--no-header", "--text-columns", "1", "--label-column", "2"]
BEHIND = ["--no-header", "--text-columns", "2", "--label-column", "1"]
TEXT, SCORES = ["--text-columns", "text"], ["--text-columns", "text", "--regression"]
MORE = [("good", "1", "id7"), ("bad", "0", "id8"), ("short", "1"), ("long", "1", "id9", "more")]
JSON = '{"text": "one", "label": 1}\n'
DATES = ["20190514", "20190527", "20190601"]
READ = [  # a file, options, the texts, the labels or scores, lines that are skipped
    ("x.csv", 'text,label\r\n"two\r\nlines",a\r\nnext,b\r\n', TEXT, ["two\nlines", "next"], ["a", "b"], []),
    ("x.csv", 'text, label\n"one, two", a\n"a ""b""", b\n', TEXT, ["one, two", 'a "b"'], ["a", "b"], []),
    ("x.csv", 'text, label\none, a\nthree, "a"\n', TEXT, ["one", "three"], ["a", "a"], []),
    ("x.csv", '1, "one, two"\n0, "three, four"\n', BEHIND, ["one, two", "three, four"], ["1", "0"], []),
    ("x.tsv.gz", gzip.compress(b"a\tone\nb\ttwo\n", mtime=0), BEHIND, ["one", "two"], ["a", "b"], []),
    ("x.tsv", "".join("\t".join(row) + "\n" for row in MORE), BY_NUMBER, ["good", "bad"], ["1", "0"], [3, 4]),
    ("x.csv", "".join(",".join(row) + "\n" for row in MORE), BY_NUMBER, ["good", "bad"], ["1", "0"], [3, 4]),
    ("x.csv", "text,label,id,id\nA,1,1,1\nC,0,2,2\n", TEXT, ["A", "C"], ["1", "0"], []),
    ("x.tsv", '\ufefftext\tlabel\r\n  "a" \u00e9  \t1\r\n\t0\r\n', TEXT, ['"a" \u00e9', ""], ["1", "0"], []),
    # byte-order marks of joined files
    ("x.tsv", 2 * "\ufeffone\t1\n", BY_NUMBER, ["one", "one"], ["1", "1"], []),
    ("x.jsonl", 2 * f"\ufeff{JSON}", TEXT, ["one", "one"], ["1", "1"], []),
    ("x.jsonl", JSON + JSON.replace("1", "true") + "\n\n", TEXT, ["one", "one"], ["1", "true"], []),
    ("x.jsonl", JSON + '{"text": "b", "text": "c", "label": 0}\n' + JSON, TEXT, ["one", "one"], ["1", "1"], [2]),
    ("x.jsonl", JSON + JSON.replace("1", "NaN") + JSON, TEXT, ["one", "one"], ["1", "1"], [2]),
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


def test_pairs_with_scores(commands):
    path = commands.write("x.tsv", PAIRS)
    options = ["--text-columns", "first", "second", "--label-column", "score", "--regression", "5"]
    data = commands.ok("x", "--from-tsv", f"train={path}", f"valid={path}", *options)
    assert commands.texts(data, "valid") == ["one a", "two a"]
    assert commands.texts(data, "valid", "input1") == ["one b", "two b"]
    assert data.targets("train") == ["0.8", "0.2"]


def test_csv_classes_by_frequency_or_in_the_order_given(commands):
    path = commands.write("x.csv", SENTENCES)
    files = ["--from-csv", f"valid={path}", f"train={path}", "--text-columns", "text"]
    data = commands.ok("x", *files)
    assert data.label_names == ["no", "yes"] and commands.texts(data, "train") == ["fine", "so, so", "bad"]
    ordered = commands.ok("x", *files, "--labels", "yes", "no", "maybe", "--overwrite")
    assert ordered.label_names == ["yes", "no", "maybe"] and commands.labels(ordered, "train") == ["yes", "no", "no"]


def test_options_with_several_values_may_be_given_twice(commands):
    path = commands.write("x.tsv", PAIRS)
    files = ["--from-tsv", f"train={path}", "--from-tsv", f"valid={path}"]
    columns = ["--text-columns", "first", "--text-columns", "second", "--label-column", "score"]
    data = commands.ok("x", *files, *columns, "--labels", "1", "--labels", "4")
    assert data.splits == ["train", "valid"] and data.inputs == ("input0", "input1") and data.label_names == ["1", "4"]


@pytest.mark.parametrize("options", [[], ["--overwrite"]])
def test_a_folder_that_holds_anything_else_is_not_replaced(commands, options):
    """Raw files and the vocabulary may lie there, or what is somebody's own; other runs' word vectors do go."""
    path = commands.write("x.tsv", PAIRS)
    given = ["x", "--from-tsv", f"train={path}", "--text-columns", "first", "--label-column", "score"]
    data = commands.ok(*given)
    for own in ("thesis.txt", "model.bin", "input0/train.tsv", "glove/vectors.txt"):
        (file := data.path / own).parent.mkdir(exist_ok=True)
        file.write_text("mine")
        assert commands.run(*given, *options) == 1 and f" {own} " in commands.capsys.readouterr().err
        assert file.read_text() == "mine"
        file.unlink()
    (data.path / "glove" / "glove.json").write_text("{}")
    commands.ok(*given, "--overwrite")
    assert not (data.path / "glove").exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('text\tlabel\n"a ""b"" c"\t1\n"so" it "is"\t0\n"""d"""\t0\n""\t1\n', "2 lines, the first 2,"),
        ('text\tlabel\n"so" it "is"\t0\n""\t1\n', None),
        # over several lines: a part of a text would be an example
        ('text\tlabel\nso\t0\n"one\ntwo\nthree"\t1\n', "1 lines, the first 5,"),
        ('label\ttext\n0\tso\n1\t"one\ntwo"\n', "1 lines, the first 3,"),
        ("label\ttext\n0\tso\n1\t'one\ntwo'\n", None),
        ('text\tlabel\n5" wide\t0\nnarrow\t1\nbroken\n', None),
    ],
)
def test_a_tsv_that_is_quoted_as_csv(content, told, commands):
    """As pandas and spreadsheets write it: a quote in a text is doubled, and the text stands in quotes."""
    data = commands.own("x.tsv", content, "--text-columns", "text")
    for said in (commands.capsys.readouterr().out, (data.path / "preprocess.log").read_text()):
        assert f"x.tsv: {told}" in said if told else "quoted as in csv" not in said


def test_swapped_pairs_follow_the_pairs(commands):
    path = commands.write("x.tsv", PAIRS)
    options = ["--text-columns", "first", "second", "--label-column", "id", "--swap-pairs", "append"]
    data = commands.ok("x", "--from-tsv", f"train={path}", f"valid={path}", *options)
    assert commands.texts(data, "train") == ["one a", "two a", "one b", "two b"]
    assert commands.texts(data, "train", "input1") == ["one b", "two b", "one a", "two a"]
    assert commands.labels(data, "train") == ["1", "2", "1", "2"]
    assert commands.texts(data, "valid") == ["one a", "two a"]


def test_efl(commands):
    for file in ("train.csv", "test.csv"):
        commands.write(f"cr/{file}", "1,nice\n0,bad\n0,awful\n")
    data = commands.ok("CR", "--raw", commands.raw, "--efl")
    assert commands.texts(data, "train") == ["nice", "bad", "awful"]
    assert set(commands.texts(data, "train", "input1")) == {EFL_DESCRIPTIONS["CR"]["1"]}
    assert commands.labels(data, "train") == ["entailment", "not_entailment", "not_entailment"]
    assert data.label_names == ["not_entailment", "entailment"]


def test_efl_with_a_description_of_every_class(commands, monkeypatch):
    monkeypatch.setitem(EFL_DESCRIPTIONS, "x", {"a": "It is a", "b": "It is b", "c": "It is c"})
    data = commands.own("x.tsv", "t\tlabel\none\tb\n", "--text-columns", "t", "--labels", "a", "b", "c", "--efl")
    assert commands.texts(data, "train", "input1") == ["It is a", "It is b", "It is c"]
    assert commands.labels(data, "train") == ["not_entailment", "entailment", "not_entailment"]


def test_pairs_are_cut_and_counted_whichever_sentence_is_cut_or_empty(commands):
    pairs = "a\tb\tlabel\nabcdef\tab\t1\nab\tabcdef\t0\n\tab\t1\nab\t\t0\n"
    data = commands.own("x.tsv", pairs, "--text-columns", "a", "b", "--max-length", "3")
    assert commands.texts(data, "train") == ["abc", "ab", "", "ab"]
    header, counts = (line.split() for line in commands.capsys.readouterr().out.split("\n")[1:3])
    assert header[-3:-1] == ["truncated", "empty"] and counts[-3:-1] == ["2", "2"]


def test_several_workers_and_chunks_write_the_same(commands, monkeypatch):
    monkeypatch.setattr("preprocess.binarize.CHUNK", 3)
    path = commands.write("x.tsv", "t\tlabel\n" + "".join(f"{'w ' * (i % 5)}{i}\t{i % 3}\n" for i in range(20)))
    options = ["--from-tsv", f"train={path}", "--text-columns", "t"]
    one, two = commands.ok("one", *options), commands.ok("two", *options, "--workers", "2")
    for file in ("input0/train.bin", "input0/train.idx", "label/train.bin", "label/dict.txt"):
        assert (one.path / file).read_bytes() == (two.path / file).read_bytes()


def test_log_says_what_was_read(commands):
    path = commands.write("x.tsv", "t\tlabel\na\t1\nbroken\nb\t0\n")
    data = commands.ok("x", "--from-tsv", f"train={path}", "--text-columns", "t")
    log = (data.path / "preprocess.log").read_text(encoding="utf-8")
    assert "command: python -m preprocess x --from-tsv" in log and "numpy" in log
    assert f"malformed: {path} line 3: " in log
    for file in (path, commands.vocab / "dict.txt"):
        assert f"sha256 {hashlib.sha256(file.read_bytes()).hexdigest()} {file}" in log
    record = json.loads((data.path / "preprocess.json").read_text())
    fingerprint = record.pop("vocab_sha256")
    vocab = str(commands.vocab.resolve())
    assert record == {"task": "x", "bpe": "gpt2", "vocab": vocab, "scale": None, "max_length": None}
    dictionary, merges = commands.vocab / "dict.txt", commands.vocab / "vocab.bpe"
    dictionary.write_text(dictionary.read_text() + "more 1\n")  # every folder has a copy, with a fingerprint of its own
    scores = commands.ok("y", "--from-tsv", f"train={path}", "--text-columns", "t", "--regression", "5")
    record = json.loads((scores.path / "preprocess.json").read_text())
    assert record["vocab_sha256"] == fingerprint and record["scale"] == 5
    merges.write_text(merges.read_text() + "#version: other\n")
    again = commands.ok("z", "--from-tsv", f"train={path}", "--text-columns", "t")
    assert json.loads((again.path / "preprocess.json").read_text())["vocab_sha256"] != fingerprint
