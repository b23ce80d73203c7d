"""Own data: --from-tsv, --from-csv, --from-jsonl, and what changes rows: --swap-pairs, --efl."""

import gzip
import json

import pytest

from preprocess.transforms import EFL_DESCRIPTIONS

PAIRS = "id\tfirst\tsecond\tscore\n1\tone a\tone b\t4\n2\ttwo a\ttwo b\t1\n"
SENTENCES = 'text,label\nfine,yes\n"so, so",no\nbad,no\n'


def test_tsv_pairs_with_scores(commands):
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


def test_csv_field_over_several_lines(commands):
    path = commands.write("x.csv", 'text,label\r\n"two\r\nlines",a\r\nnext,b\r\n')
    data = commands.ok("x", "--from-csv", f"train={path}", "--text-columns", "text")
    assert commands.texts(data, "train") == ["two\nlines", "next"]


def test_csv_fields_behind_a_space(commands):
    path = commands.write("x.csv", 'text, label\n"one, two", a\n"say ""yes""", b\nthree, "a"\n')
    data = commands.ok("x", "--from-csv", f"train={path}", "--text-columns", "text")
    assert commands.texts(data, "train") == ["one, two", 'say "yes"', "three"]
    assert commands.labels(data, "train") == ["a", "b", "a"]
    path = commands.write("y.csv", '1, "one, two"\n0, "three, four"\n')
    data = commands.ok("y", "--from-csv", f"train={path}", "--no-header", "--text-columns", "2", "--label-column", "1")
    assert commands.texts(data, "train") == ["one, two", "three, four"]


def test_columns_by_number_and_gzip(commands):
    path = commands.raw / "x.tsv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("a\tone\nb\ttwo\n")
    options = ["--no-header", "--text-columns", "2", "--label-column", "1"]
    assert commands.texts(commands.ok("x", "--from-tsv", f"train={path}", *options), "train") == ["one", "two"]


@pytest.mark.parametrize(("kind", "sign"), [("tsv", "\t"), ("csv", ",")])
def test_columns_by_number_and_more_that_nobody_asks_for(commands, kind, sign):
    rows = [("good", "1", "id7"), ("bad", "0", "id8"), ("short", "1"), ("long", "1", "id9", "more")]
    path = commands.write(f"x.{kind}", "".join(f"{sign.join(row)}\n" for row in rows))
    options = ["--no-header", "--text-columns", "1", "--label-column", "2"]
    data = commands.ok("x", f"--from-{kind}", f"train={path}", *options)
    assert commands.texts(data, "train") == ["good", "bad"] and commands.labels(data, "train") == ["1", "0"]
    said = commands.capsys.readouterr().out
    assert "skipped line 3: 2 fields instead of 3; line 4: 4 fields instead of 3" in said


@pytest.mark.parametrize(("kind", "sign"), [("tsv", "\t"), ("csv", ",")])
def test_a_column_that_a_header_has_twice(commands, kind, sign):
    path = commands.write(f"x.{kind}", "text,label,text,id,id\nA,1,B,1,1\nC,0,D,2,2\n".replace(",", sign))
    files = [f"--from-{kind}", f"train={path}", "--label-column"]
    said = commands.fails("x", *files, "label", "--text-columns", "text")
    assert f"{path} has two columns text: give one of them another name" in said
    assert f"{path} has two columns id: " in commands.fails("x", *files, "label", "--text-columns", "id")
    path = commands.write(f"x.{kind}", "text,label,id,id\nA,1,1,1\nC,0,2,2\n".replace(",", sign))
    assert commands.texts(commands.ok("x", *files, "label", "--text-columns", "text"), "train") == ["A", "C"]


def test_jsonl(commands):
    lines = [{"s": "one", "ok": True}, {"s": "two", "ok": False}, {"s": "three", "ok": False}]
    path = commands.write("x.jsonl", "\n".join(map(json.dumps, lines)) + "\n\n")
    data = commands.ok("x", "--from-jsonl", f"train={path}", "--text-columns", "s", "--label-column", "ok")
    assert data.label_names == ["false", "true"] and commands.labels(data, "train") == ["true", "false", "false"]


def test_bom_crlf_quotes_and_white_space(commands):
    path = commands.write("x.tsv", '\ufefftext\tlabel\r\n  "a" \u00e9  \t1\r\n\t0\r\n')
    data = commands.ok("x", "--from-tsv", f"train={path}", "--text-columns", "text")
    assert commands.texts(data, "train") == ['"a" \u00e9', ""] and commands.labels(data, "train") == ["1", "0"]


def test_a_tsv_that_is_quoted_as_csv(commands, capsys):
    """As pandas and spreadsheets write it: a quote in a text is doubled, and the text stands in quotes."""
    path = commands.write("x.tsv", 'text\tlabel\n"a ""b"" c"\t1\n"so" it "is"\t0\n"""d"""\t0\n""\t1\n')
    data = commands.ok("x", "--from-tsv", f"train={path}", "--text-columns", "text")
    note = f"{path}: 2 lines, the first 2, have a text that looks quoted as in csv, and keep its quotes; if they are"
    assert note in capsys.readouterr().out and note in (data.path / "preprocess.log").read_text()
    path = commands.write("x.tsv", 'text\tlabel\n"so" it "is"\t0\n""\t1\n')
    commands.ok("y", "--from-tsv", f"train={path}", "--text-columns", "text")
    assert "looks quoted" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ('text\tlabel\nso\t0\n"one\ntwo\nthree"\t1\n', 5),  # its first line is malformed, its last is not
        ('label\ttext\n0\tso\n1\t"one\ntwo"\n', 3),
    ],
)
def test_a_text_over_several_lines_of_a_tsv(commands, capsys, text, first):
    """As csv writes it; a part of it would be an example without a word."""
    path = commands.write("x.tsv", text)
    commands.ok("x", "--from-tsv", f"train={path}", "--text-columns", "text")
    assert f"{path}: 1 lines, the first {first}, have a text that looks quoted as in csv" in capsys.readouterr().out
    commands.write("x.tsv", text.replace('"', "'"))
    commands.ok("y", "--from-tsv", f"train={path}", "--text-columns", "text")
    commands.write("x.tsv", 'text\tlabel\n5" wide\t0\nnarrow\t1\nbroken\n')
    commands.ok("z", "--from-tsv", f"train={path}", "--text-columns", "text")
    assert "looks quoted" not in capsys.readouterr().out


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
    path = commands.write("x.tsv", "t\tlabel\none\tb\n")
    options = ["--text-columns", "t", "--labels", "a", "b", "c", "--efl"]
    data = commands.ok("x", "--from-tsv", f"train={path}", *options)
    assert commands.texts(data, "train", "input1") == ["It is a", "It is b", "It is c"]
    assert commands.labels(data, "train") == ["not_entailment", "entailment", "not_entailment"]


def test_scores_have_six_digits_as_in_the_published_folders(commands):
    path = commands.write("x.tsv", "t\tlabel\na\t2.33333333333333\nb\t4.75\n")
    own = ("x", "--from-tsv", f"train={path}", "--text-columns", "t", "--regression")
    assert commands.ok(*own, "5").targets("train") == ["0.466667", "0.95"]


def test_scores_that_lie_close_together_stay_apart(commands):
    dates = ["20190514", "20190527", "20190601"]
    path = commands.write("x.tsv", "t\tlabel\n" + "".join(f"a\t{date}\n" for date in dates))
    data = commands.ok("x", "--from-tsv", f"train={path}", "--text-columns", "t", "--regression")
    assert data.targets("train") == dates
    path = commands.write("y.tsv", "t\tlabel\na\t0.3333333333\nb\t0.3333333333\n")
    assert commands.ok("y", "--from-tsv", f"train={path}", "--text-columns", "t", "--regression").targets("train") == (
        ["0.333333"] * 2
    )


def test_a_key_that_a_record_has_twice(commands):
    path = commands.write(
        "x.jsonl", '{"t": "a", "label": 1}\n{"t": "b", "t": "c", "label": 0}\n{"t": "d", "label": 0}\n'
    )
    data = commands.ok("x", "--from-jsonl", f"train={path}", "--text-columns", "t")
    assert commands.texts(data, "train") == ["a", "d"]
    assert "skipped line 2: not JSON (a key is there twice)" in commands.capsys.readouterr().out


def test_sentences_cut_to_a_length(commands):
    path = commands.write("x.tsv", "t\tlabel\nabcdef\t1\nab\t0\n")
    data = commands.ok("x", "--from-tsv", f"train={path}", "--text-columns", "t", "--max-length", "3")
    assert commands.texts(data, "train") == ["abc", "ab"]
    summary = commands.capsys.readouterr().out.split("\n")
    assert summary[1].split()[-3] == "truncated" and summary[2].split()[-3] == "1"


def test_pairs_are_counted_whichever_sentence_is_cut_or_empty(commands):
    path = commands.write("x.tsv", "a\tb\tlabel\nabcdef\tab\t1\nab\tabcdef\t0\n\tab\t1\nab\t\t0\n")
    commands.ok("x", "--from-tsv", f"train={path}", "--text-columns", "a", "b", "--max-length", "3")
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
    assert f"malformed: {path} line 3: 1 fields instead of 2" in log
    for file in (path, commands.vocab / "dict.txt"):
        import hashlib

        assert f"sha256 {hashlib.sha256(file.read_bytes()).hexdigest()} {file}" in log
    record = json.loads((data.path / "preprocess.json").read_text())
    fingerprint = record.pop("vocab_sha256")
    assert record == {
        "task": "x",
        "bpe": "gpt2",
        "vocab": str(commands.vocab.resolve()),
        "scale": None,
        "max_length": None,
    }
    dictionary, merges = commands.vocab / "dict.txt", commands.vocab / "vocab.bpe"
    dictionary.write_text(dictionary.read_text() + "more 1\n")  # every folder has a copy, with a fingerprint of its own
    scores = commands.ok("y", "--from-tsv", f"train={path}", "--text-columns", "t", "--regression", "5")
    record = json.loads((scores.path / "preprocess.json").read_text())
    assert record["vocab_sha256"] == fingerprint and record["scale"] == 5
    merges.write_text(merges.read_text() + "#version: other\n")
    again = commands.ok("z", "--from-tsv", f"train={path}", "--text-columns", "t")
    assert json.loads((again.path / "preprocess.json").read_text())["vocab_sha256"] != fingerprint


def test_a_label_that_json_has_no_number_for(commands):
    path = commands.write("x.jsonl", '{"t": "a", "label": 1}\n{"t": "b", "label": NaN}\n{"t": "c", "label": 0}\n')
    data = commands.ok("x", "--from-jsonl", f"train={path}", "--text-columns", "t")
    assert sorted(data.label_names) == ["0", "1"] and commands.texts(data, "train") == ["a", "c"]
    assert "skipped line 2: not such a record" in commands.capsys.readouterr().out
