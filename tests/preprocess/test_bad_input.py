"""Every kind of bad input: one line that names it, exit status 1, nothing left behind."""

import builtins
import errno
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preprocess.data_folder import DataFolder
from preprocess.errors import InputError
from preprocess.json_examples import RECORDS
from preprocess.readers import LAYOUTS
from preprocess.rows import Columns, Malformed
from preprocess.sources import Source
from preprocess.tasks import FOLDERS
from tests.preprocess.commands import run

QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
RTE = "index\tsentence1\tsentence2\tlabel\n"


def test_missing_files(commands):
    assert "--raw /nowhere does not exist" in commands.fails("RTE", "--raw", "/nowhere")
    error = commands.fails("RTE", "--raw", commands.raw)
    assert "has no train split of RTE (RTE/train.tsv or" in error and "--splits" in error
    commands.write("RTE/dev.tsv", RTE)
    assert "dev.tsv has no examples" in commands.fails("RTE", "--raw", commands.raw, "--splits", "valid")
    assert "does not exist" in commands.fails("x", "--from-tsv", "train=/nowhere", "--text-columns", "t")


def test_unknown_names(commands):
    assert "task RET is unknown: did you mean RTE?" in commands.fails("RET", "--raw", commands.raw)
    assert "--splits dev: RTE has train, valid, test" in commands.fails("RTE", "--raw", commands.raw, "--splits", "dev")


def test_missing_column(commands):
    commands.write("RTE/dev.tsv", "index\tsentence1\tlabel\n0\ta\tentailment\n")
    error = commands.fails("RTE", "--raw", commands.raw, "--splits", "valid")
    assert "dev.tsv has no column sentence2: it has index, sentence1, label" in error
    commands.write("RTE/dev.tsv", "index\tsentence1\tsentence2\n0\ta\tb\n")
    assert "no column label" in commands.fails("RTE", "--raw", commands.raw, "--splits", "valid")


def test_wrong_number_of_fields_is_skipped_and_counted_or_an_error(commands):
    path = commands.write(
        "QQP/dev.tsv", QQP + "1\t2\t3\ta\tb\t0\n4\t5\t6\tbroken\n7\t8\t9\tx\ty\tz\t1\n1\t1\t1\tc\td\t1\n"
    )
    assert "line 3: 4 fields instead of 6" in commands.fails(
        "QQP", "--raw", commands.raw, "--splits", "valid", "--strict"
    )
    data = commands.ok("QQP", "--raw", commands.raw, "--splits", "valid")
    assert commands.texts(data, "valid") == ["a", "c"]
    shown = commands.capsys.readouterr().out
    assert f"{path}: skipped line 3: 4 fields instead of 6; line 4: 7 fields instead of 6" in shown


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl"])
def test_a_malformed_row_of_a_test_split_keeps_its_place(kind, commands, monkeypatch):
    """Chunks of two, so that one is behind the last example of a chunk, one in the middle, one at the end."""
    monkeypatch.setattr("preprocess.binarize.CHUNK", 2)
    rows = ["a", None, "b", "c", None, None, "d", "e", None]
    sign = {"tsv": "\t", "csv": ","}.get(kind, "")
    bad, row = (f"x{sign}y{sign}z", "{}" + sign + "1") if sign else ("{", '{{"text": "{}", "label": 1}}')
    header = f"text{sign}label\n" if sign else ""
    known = commands.write(f"train.{kind}", header + 2 * (row.format("a") + "\n"))
    path = commands.write(f"test.{kind}", header + "".join(f"{row.format(r) if r else bad}\n" for r in rows))
    own = ("x", f"--from-{kind}", f"train={known}", f"valid={path}", "--text-columns", "text")
    test = (*own[:3], f"test={path}", *own[4:])
    assert f"{path} line {2 + bool(sign)}: " in (error := commands.fails(*test)) and "--skip-bad" in error
    for options in (test + ("--skip-bad",), test + ("--skip-bad", "--workers", "2"), own):
        data = commands.ok(*options, "--overwrite")
        split = data.splits[-1]
        assert commands.texts(data, split) == ["a", "b", "c", "d", "e"]
        lines = [number + 1 + bool(sign) for number, text in enumerate(rows) if text is None]
        assert data.left_out(split) == list(zip([1, 3, 3, 5], lines)) and data.left_out("train") == []
    few = ["few-shot", "x", "--data", data.path, "--out", commands.out, "--k", "1", "--dev", "1"]
    assert run([str(option) for option in few]) == 0
    assert DataFolder(commands.out / "x-K1-seed1-bin").left_out("test") == data.left_out("valid")
    (data.path / "left_out" / "valid.txt").write_text("1 2\n")
    with pytest.raises(InputError, match="left_out/valid.txt is not what preprocess wrote"):
        data.left_out("valid")


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl"])
def test_empty_lines_keep_their_places(kind, commands):
    """Those between rows; whatever reads lines counts them, and nothing counts those at the end."""
    sign = {"tsv": "\t", "csv": ","}.get(kind, "")
    row = "{}" + sign + "1\n" if sign else '{{"text": "{}", "label": 1}}\n'
    text = (f"text{sign}label\n" if sign else "") + row.format("a") + "\n\n" + row.format("b") + "\n" + row.format("c")
    train, test = (
        commands.write(f"train.{kind}", row.format("text") + row.format("a")),
        commands.write("test", text + "\n"),
    )
    header = [] if kind == "jsonl" else ["--no-header"]
    columns = ["--text-columns", "1", "--label-column", "2"] if header else ["--text-columns", "text"]
    options = [f"--from-{kind}", f"train={train}", f"test={test}", *header, *columns, "--labels", "1", "label"]
    data = commands.ok("x", *options, "--strict")
    first = 1 + len(header)
    assert data.left_out("test") == [(first, first + 1), (first, first + 2), (first + 1, first + 4)]


def test_rows_without_a_gold_label_keep_their_places(commands):
    header = "sentence1\tsentence2\tgold_label\n"
    for name in ("train", "dev", "test"):
        commands.write(f"SNLI/{name}.tsv", header + "a\tb\tneutral\nc\td\t-\ne\tf\tneutral\n")
    data = commands.ok("SNLI", "--raw", commands.raw)
    assert commands.texts(data, "test") == ["a", "e"] and data.left_out("test") == [(1, 3)]


@pytest.mark.parametrize("kind", ["tsv", "csv"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("again", [b'"text",label', b"Text, LABEL ", b"label,text"])
def test_a_header_in_the_middle_of_joined_files(kind, bom, again, commands):
    rows = b"\r\ngood,1\r\nbad,0\r\n"
    text = bom + b'"text",label' + rows + bom + again + rows
    path = commands.write(f"t.{kind}", text if kind == "csv" else text.replace(b",", b"\t").replace(b'"', b""))
    for split in ("train", "test"):
        own = [f"--from-{kind}", f"{split}={path}", "--text-columns", "text", "--labels", "0", "1"]
        assert f"t.{kind} line 4 is the header" in commands.fails("x", *own, "--skip-bad")


def test_the_marks_of_joined_files_are_no_text(commands):
    lines = {"tsv": "one\t1\n", "jsonl": '{"text": "one", "label": 1}\n'}
    for kind, line in lines.items():
        path = commands.write(f"t.{kind}", f"\ufeff{line}\ufeff{line}")
        own = (
            ["--text-columns", "text"]
            if kind == "jsonl"
            else ["--no-header", "--text-columns", "1", "--label-column", "2"]
        )
        data = commands.ok(kind, f"--from-{kind}", f"train={path}", *own, "--strict")
        assert commands.texts(data, "train") == ["one", "one"]


def test_unknown_label(commands):
    commands.write("RTE/dev.tsv", RTE + "0\ta\tb\tmaybe\n")
    error = commands.fails("RTE", "--raw", commands.raw, "--splits", "valid")
    assert "dev.tsv line 2: label 'maybe' is unknown (known: entailment, not_entailment)" in error
    train, valid = commands.write("t.tsv", "t\tlabel\na\tx\n"), commands.write("v.tsv", "t\tlabel\na\ty\n")
    options = ["--from-tsv", f"valid={valid}", f"train={train}", "--text-columns", "t"]
    assert "v.tsv line 2: label 'y' is unknown (known: x)" in commands.fails("x", *options)


@pytest.mark.parametrize("label", ["two words", ""])
def test_labels_must_be_one_word(label, commands):
    path = commands.write("t.tsv", f"t\tlabel\na\t{label}\n")
    assert "give every class a name" in commands.fails("x", "--from-tsv", f"train={path}", "--text-columns", "t")


def test_scores_must_be_numbers(commands):
    path = commands.write("t.tsv", "t\tlabel\na\t1.5\nb\tnan\n")
    options = ["--from-tsv", f"train={path}", "--text-columns", "t", "--regression"]
    assert "t.tsv line 3: score 'nan' is not a number" in commands.fails("x", *options)


def test_invalid_utf8(commands):
    path = commands.write("t.tsv", b"t\tlabel\nok\t1\ncaf\xe9\t1\n")
    error = commands.fails("x", "--from-tsv", f"train={path}", "--text-columns", "t")
    assert "t.tsv line 3: byte 0xe9 is not UTF-8" in error and "from its own encoding" in error


def test_invalid_utf8_far_into_a_file(commands):
    path = commands.write("t.tsv", b"t\tlabel\n" + b"text\t1\n" * 300_000 + b"\xff\t1\n")
    error = commands.fails("x", "--from-tsv", f"train={path}", "--text-columns", "t")
    assert "t.tsv line 300002: byte 0xff" in error


def test_damaged_archives(commands):
    path = commands.write("t.tsv.gz", b"\x1f\x8b not gzip")
    assert "is damaged" in commands.fails("x", "--from-tsv", f"train={path}", "--text-columns", "t")
    commands.write("RTE.zip", b"PK not a zip")
    assert "RTE.zip is damaged" in commands.fails("RTE", "--raw", commands.raw)
    archive = commands.raw / "RTE.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr("RTE/dev.tsv", RTE + "0\ta\tb\tentailment\n" * 5000)
    content = bytearray(archive.read_bytes())
    content[60:90] = bytes(30)
    archive.write_bytes(bytes(content))
    assert "is damaged" in commands.fails("RTE", "--raw", commands.raw, "--splits", "valid")


def test_unclosed_quote(commands):
    path = commands.write("t.csv", 'text,label\nfine,1\n"never closed,0\nmore,1\n')
    error = commands.fails("x", "--from-csv", f"train={path}", "--text-columns", "text")
    assert "t.csv line 3: a quote is opened and never closed" in error
    commands.write("t.csv", 'text,label\n"never closed,0\nmore,1\n"one, two",1\n')
    error = commands.fails("x", "--from-csv", f"train={path}", "--text-columns", "text")
    assert "t.csv line 2: a quote is opened that line 4 closes by mistake" in error


def test_options_that_contradict_each_other(commands):
    path = commands.write("t.tsv", "t\tlabel\na\t1\n")
    own = ["--from-tsv", f"train={path}", "--text-columns", "t"]
    for options, message in [
        ([], "none was given"),
        ([*own, "--raw", commands.raw], "not --raw and --from-tsv"),
        (["--raw", commands.raw, "--labels", "a"], "go with --from-"),
        (["--raw", commands.raw, "--label-column", "a"], "--label-column"),
        ([*own, "--splits", "train"], "--splits train"),
        ([*own, "--workers", "0"], "--workers 0"),
        ([*own, "--max-length", "0"], "--max-length 0"),
        ([*own, "--regression", "0"], "--regression 0.0"),
        ([*own, "--efl", "--regression"], "--efl is for classes"),
        ([*own, "--efl"], "x has no label descriptions"),
        ([*own, "--swap-pairs", "append"], "x has single sentences"),
        ([*own[:2], "train=again", *own[2:]], "named twice"),
        (["--from-tsv", "dev=x", "--text-columns", "t"], "--from-tsv dev=x: give train="),
        (["--from-tsv", f"train={path}"], "--text-columns is missing"),
        ([*own, "--no-header"], "columns are numbers"),
        ([*own[:2], "--text-columns", "00", "--no-header"], "columns are numbers, from 1"),
        ([*own[:2], "--text-columns", "²", "--no-header"], "columns are numbers, from 1"),
        ([*own, "--bpe", "gpt2", "--csv-quotes", "keep"], "--csv-quotes keep"),
    ]:
        assert message in commands.fails("x", *options)
    splits = ("--splits", "valid", "valid")
    assert "--splits valid valid: a split is named twice" in commands.fails("RTE", "--raw", with_rte(commands), *splits)
    assert "RTE has sentence pairs already" in commands.fails("RTE", "--raw", with_rte(commands), "--efl")
    assert "is not the name of a folder" in commands.fails("a/b", *own)


def with_rte(commands):
    for file in ("train.tsv", "dev.tsv"):
        commands.write(f"RTE/{file}", RTE + "0\ta\tb\tentailment\n")
    return commands.raw


def test_vocabulary(commands):
    raw = with_rte(commands)
    assert "--vocab /nowhere does not exist: run checkpoints/download.sh gpt2_bpe" in commands.fails(
        "RTE", "--raw", raw, vocab="/nowhere"
    )
    (commands.vocab / "dict.txt").write_text("1 1\n")
    error = commands.fails("RTE", "--raw", raw)
    assert "dict.txt lacks the piece" in error and "--vocab" in error


def test_existing_folder(commands):
    raw = with_rte(commands)
    data = commands.ok("RTE", "--raw", raw)
    before = (data.path / "input0" / "train.bin").read_bytes()
    assert commands.run("RTE", "--raw", raw) == 1
    assert "RTE-bin exists already" in commands.capsys.readouterr().err
    commands.write("RTE/train.tsv", RTE + "0\tbad\tlabel\tnone\n")
    assert commands.run("RTE", "--raw", raw, "--overwrite") == 1
    assert (data.path / "input0" / "train.bin").read_bytes() == before  # a failure keeps the old folder
    assert [path.name for path in commands.out.iterdir()] == ["RTE-bin"]


def test_out_is_a_file(commands):
    commands.out.write_text("")
    assert commands.run("RTE", "--raw", with_rte(commands)) == 1
    assert "is a file: name a folder with --out" in commands.capsys.readouterr().err


def test_full_disk(commands, monkeypatch):
    raw, real = with_rte(commands), builtins.open

    class Full:
        def __init__(self, file):
            self.file = file

        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self):
            self.file.close()

    def full(path, mode="r", *more, **options):
        file = real(path, mode, *more, **options)
        return Full(file) if str(path).endswith("input0/train.bin") else file

    monkeypatch.setattr(builtins, "open", full)
    assert "No space left on device; make room there" in commands.fails("RTE", "--raw", raw)


def test_interruption(commands, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    raw = with_rte(commands)
    monkeypatch.setattr("preprocess.binarize.Labels.add", interrupted)
    assert "interrupted; nothing written" in commands.fails("RTE", "--raw", raw)


FIELDS = {"tsv": Columns(["a", "b"], "label", True), "csv": Columns(["a", "b"], "label", True)}
FIELDS.update(dict.fromkeys(RECORDS, Columns(["a", "b"], "label", False)))
FIELDS["csv-with-quotes"] = FIELDS[FOLDERS] = Columns((1,), 0, False)
PIECES = [
    "a",
    "b",
    "label",
    ",",
    "\t",
    "\n",
    "\r\n",
    '"',
    "{",
    "}",
    ":",
    '{"a": "x", "b": "y", "label": 1}',
    '{"text": "a b", "target": {"span1_text": "a", "span2_text": "b", "span2_index": 1}, "label": true}',
    '{"passage": {"text": "a b", "entities": [{"start": 0, "end": 1}]}, "qas": [{"query": "@placeholder"}]}',
    "\u00e9",
    "[1]",
    " ",
]


@pytest.mark.parametrize("layout", list(LAYOUTS))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.one_of(st.binary(), st.lists(st.sampled_from(PIECES)).map(lambda parts: "".join(parts).encode())))
def test_readers_survive_anything(layout, content, tmp_path):
    """Rows of the right shape, or a InputError; every other exception is a bug."""
    path = tmp_path / "fuzz"
    path.write_bytes(b"a\tb\tlabel\n" * (layout == "tsv") + b"a,b,label\n" * (layout == "csv") + content)
    columns = FIELDS[layout]
    source = Source.file(path)
    try:
        rows = list(LAYOUTS[layout](source.lines(), columns, Malformed(source.name, strict=False)))
    except InputError as error:
        assert "fuzz" in str(error)
        return
    for row in rows:
        assert row.line >= 1 and len(row.texts) in (1, 2) and all(isinstance(text, str) for text in row.texts)
        assert row.label is None or isinstance(row.label, str)
        "".join(row.texts).encode("utf-8")


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["a\0b", "a\x07b", "a\nb", "", "..", ".", "a/b", "x" * 300, "caf\udce9"])
def test_names_that_no_folder_can_have(task, commands):
    path = commands.write("t.tsv", "t\tlabel\na\t1\n")
    error = commands.fails(task, "--from-tsv", f"train={path}", "--text-columns", "t")
    assert "is not the name of a folder" in error or "has a NUL or is not UTF-8: give another name" in error
    assert error.isprintable() or error[:-1].isprintable()
    assert run(["few-shot", task, "--data", "x", "--out", str(commands.out)]) == 1
    assert commands.capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text-columns", "t\0"], "'t\\x00' has a NUL"),
        (["--text-columns", "t\x1b[31m"], "has no column t\\x1b[31m: it has t, label"),
        (["--text-columns", "t", "--label-column", "\x01"], "has no column \\x01"),
        (["--text-columns", "t", "--labels", "1", "1"], "--labels 1 1: 1 is named twice"),
        (["--text-columns", "t", "--labels", "<unk>", "1"], "--labels: label '<unk>' is a name that fairseq keeps"),
        (["--text-columns", "t", "--vocab", "x\0"], "'x\\x00' has a NUL"),
    ],
)
def test_names_with_control_characters(options, message, commands):
    path = commands.write("t.tsv", "t\tlabel\na\t1\n")
    assert message in commands.fails("x", "--from-tsv", f"train={path}", *options)


@pytest.mark.parametrize("label", ["<s>", "<unk>", "<mask>", "madeupword0003", "a\x07", "a\x1cb"])
def test_labels_that_a_dictionary_cannot_hold(label, commands):
    path = commands.write("t.tsv", f"t\tlabel\na\t1\nb\t{label}\n")
    error = commands.fails("x", "--from-tsv", f"train={path}", "--text-columns", "t")
    assert "t.tsv line 3: label" in error
    assert any(said in error for said in ("name of one word", "fairseq keeps for itself", "not printed, U+0007: give"))


@pytest.mark.parametrize("score", ["nan", "inf", "-inf", "high", "", "1,5", "0x10"])
def test_scores_name_file_line_and_value(score, commands):
    path = commands.write("t.tsv", f"t\tlabel\na\t1.5\nb\t{score}\n")
    options = ["--from-tsv", f"train={path}", "--text-columns", "t", "--regression"]
    assert f"t.tsv line 3: score {score!r} is not a number: correct the line" in commands.fails("x", *options)


@pytest.mark.parametrize("score", ["NaN", "Infinity", '"high"', '"4_5"', "[1]", "{}"])
def test_scores_of_json(score, commands):
    path = commands.write("t.jsonl", f'{{"t": "a", "label": 1}}\n{{"t": "b", "label": {score}}}\n')
    options = ["--from-jsonl", f"train={path}", "--text-columns", "t", "--regression", "--strict"]
    error = commands.fails("x", *options)
    assert "t.jsonl line 2: " in error and ("is not a number" in error or "not such a record" in error)
