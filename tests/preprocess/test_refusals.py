"""Refusals as data: what is given, what the one line names, and nothing is written."""

from __future__ import annotations

import builtins
import errno
import gzip
import json
import zipfile

import pytest

from preprocess.split_facts import token_digests
from tests.preprocess.commands import install_hub

TABLE = "t\tlabel\na\t1\n"
RTE = "index\tsentence1\tsentence2\tlabel\n"
RTE_TEST = "index\tsentence1\tsentence2\n"
AN_RTE = {f"RTE/{file}.tsv": RTE + "0\ta\tb\tentailment\n" for file in ("train", "dev")}
CR = {f"original/cr/{split}.csv": "1,fine\n0,awful\n" for split in ("train", "test")}
IMDB = {f"aclImdb/{split}/{label}/0_{label}.txt": "text" for split in ("train", "test") for label in ("pos", "neg")}

# --- one file of one's own: its name, its content, more options, what the line names ---------------
MANY = b"t\tlabel\n" + b"text\t1\n" * 300_000
ONE_TEXT = ["--text-columns", "t"]
PARTS = ["--no-header", "--text-columns", "1", "--label-column", "2"]
SCORES = [*ONE_TEXT, "--regression"]
FILES = [
    # no text
    ("t.tsv", b"t\tlabel\nok\t1\ncaf\xe9\t1\n", ONE_TEXT, "t.tsv line 3: byte 0xe9"),
    ("t.tsv", MANY + b"\xff\t1\n", ONE_TEXT, "t.tsv line 300002: byte 0xff"),
    ("t.tsv", b"t\tlabel\nok\t1\nb\0d\t1\n", ONE_TEXT, "t.tsv line 3"),
    ("t.tsv", MANY + b"\0", ONE_TEXT, "t.tsv line 300002"),
    ("t.tsv", b"PK\x03\x04 and more", ONE_TEXT, "t.tsv line 1"),
    ("t.tsv", b"\x1f\x8b and more", ONE_TEXT, "t.tsv line 1"),
    ("t.tsv", "t\tlabel\n".encode("utf-16"), ONE_TEXT, "t.tsv line 1: this is no text but UTF-16"),
    ("t.tsv", b"PAR1", ONE_TEXT, "t.tsv line 1"),
    ("t.tsv.gz", b"\x1f\x8b not gzip", ONE_TEXT, "t.tsv.gz"),
    ("t.tsv.gz", gzip.compress(TABLE.encode() * 999, mtime=0)[:-9], ONE_TEXT, "t.tsv.gz"),
    ("t.tsv", b"t\tlabel\ra\t1\rb\t0\r", ONE_TEXT, "t.tsv has a CR"),
    # columns and rows
    ("t.tsv", "\n" + TABLE, ONE_TEXT, "t.tsv has no column t"),
    ("t.csv", "\ufefft;label\r\none;1\r\n", ONE_TEXT, "commas for csv"),
    ("t.csv", "\ufefft\tlabel\r\none\t1\r\n", ONE_TEXT, "commas for csv"),
    ("t.tsv", "\ufefft,label\r\none,1\r\n", ONE_TEXT, "tabs for tsv"),
    ("t.tsv", "t\tlabel\tt\tid\tid\nA\t1\tB\t1\t1\n", ONE_TEXT, "t.tsv has two columns t:"),
    ("t.csv", "t,label,t,id,id\nA,1,B,1,1\n", ["--text-columns", "id"], "t.csv has two columns id:"),
    ("t.tsv", "good\t1\nbad\t0\n", [*PARTS[:-1], "3"], "t.tsv has no examples, and line 1"),
    ("t.tsv", "t\tlabel\n", ONE_TEXT, "t.tsv has no examples"),
    ("t.csv", 't,label\nfine,1\n"never closed,0\nmore,1\n', ONE_TEXT, "t.csv line 3"),
    ("t.csv", 't,label\n"never closed,0\nmore,1\n"one, two",1\n', ONE_TEXT, "t.csv line 2"),
    ("t.jsonl", json.dumps([{"t": "a", "label": 1}]), ONE_TEXT, "t.jsonl is one JSON list"),
    ("t.jsonl", json.dumps([{"t": "a", "label": 1}], indent=1), ONE_TEXT, "t.jsonl is one JSON list"),
    ("t.tsv", TABLE, ["--text-columns", "t\x1b[31m"], "no column t\\x1b[31m"),
    ("t.tsv", TABLE, [*ONE_TEXT, "--label-column", "\x01"], "no column \\x01"),
    # labels: names, spellings, scores
    *(("t.tsv", f"{TABLE}b\t{label}\n", ONE_TEXT, "t.tsv line 3: label") for label in ["two words", "", "a\x1cb"]),
    *(("t.tsv", f"{TABLE}b\t{label}\n", ONE_TEXT, "t.tsv line 3: label") for label in ["<s>", "<unk>", "<mask>"]),
    *(("t.tsv", f"{TABLE}b\t{label}\n", ONE_TEXT, "t.tsv line 3: label") for label in ["madeupword0003", "a\x07"]),
    *(
        ("t.tsv", f"t\tlabel\na\t{one}\nb\tx\nc\t{other}\n", ONE_TEXT, "t.tsv line 4: label")
        for one, other in [("1", "1.0"), ("01", "1"), ("-2", "-2.00"), ("yes", "Yes"), ("caf\xe9", "cafe\u0301")]
    ),
    *(
        ("t.tsv", f"t\tlabel\na\t1.5\nb\t{score}\n", SCORES, f"t.tsv line 3: score {score!r}")
        for score in ["nan", "inf", "-inf", "high", "", "1,5", "0x10"]
    ),
    *(
        (
            "t.jsonl",
            f'{{"t": "a", "label": 1}}\n{{"t": "b", "label": {score}}}\n',
            [*SCORES, "--strict"],
            "jsonl line 2",
        )
        for score in ["NaN", "Infinity", '"high"', '"4_5"', "[1]", "{}"]
    ),
    ("t.tsv", "t\tlabel\na\t0\nb\t1e300\n", [*SCORES, "1e-300"], "--regression 1e-300"),
    *(
        (
            f"t.{kind}",
            f"{bom}{head}\r\ngood,1\r\n{bom}{again}\r\nbad,0\r\n".replace(",", sign),
            more,
            f"t.{kind} line 3",
        )
        for kind, sign, head in (("tsv", "\t", "t,label"), ("csv", ",", '"t",label'))
        for bom in ("", "\ufeff")
        for again in (head, "T, LABEL ", "label,t")
        for more in ([*ONE_TEXT, "--skip-bad", "--labels", "0", "1"],)
    ),
    # options beside a good file
    ("t.tsv", TABLE, ["--text-columns", "label"], "--text-columns label"),
    ("t.tsv", TABLE, ["--no-header", "--text-columns", "1", "02", "--label-column", "2"], "--text-columns 2"),
    ("t.tsv", TABLE, ["--text-columns", "t", "t"], "--text-columns t t"),
    ("t.tsv", TABLE, ["--no-header", "--label-column", "2", "--text-columns", "1", "01"], "--text-columns 1 01"),
    ("t.tsv", TABLE, ["--text-columns", "a", "b", "c"], "--text-columns a b c"),
    ("t.tsv", TABLE, [], "--text-columns"),
    ("t.tsv", TABLE, [*ONE_TEXT, "--no-header"], "column t: with --no-header"),
    ("t.tsv", TABLE, ["--text-columns", "00", "--no-header"], "column 00: with --no-header"),
    ("t.tsv", TABLE, ["--text-columns", "²", "--no-header"], "column ²: with --no-header"),
    ("t.tsv", TABLE, ["--text-columns", "t\0"], "'t\\x00'"),
    ("t.tsv", TABLE, [*ONE_TEXT, "--vocab", "x\0"], "'x\\x00'"),
    ("t.tsv", TABLE, [*ONE_TEXT, "--raw", "."], "not --raw and --from-tsv"),
    ("t.tsv", TABLE, [*ONE_TEXT, "--splits", "train"], "--splits train"),
    ("t.tsv", TABLE, [*ONE_TEXT, "--workers", "0"], "--workers 0"),
    ("t.tsv", TABLE, [*ONE_TEXT, "--max-length", "0"], "--max-length 0"),
    ("t.tsv", TABLE, [*SCORES, "0"], "--regression 0.0"),
    ("t.tsv", TABLE, [*SCORES, "inf"], "--regression inf"),
    ("t.tsv", TABLE, [*SCORES, "--efl"], "--efl"),
    ("t.tsv", TABLE, [*ONE_TEXT, "--efl"], "--efl"),
    ("t.tsv", TABLE, [*ONE_TEXT, "--swap-pairs", "append"], "--swap-pairs append"),
    ("t.tsv", TABLE, [*ONE_TEXT, "--from-tsv", "train=again"], "--from-tsv: a split is named twice"),
    ("t.tsv", TABLE, [*ONE_TEXT, "--from-tsv", "dev=x"], "--from-tsv dev=x"),
    ("t.tsv", TABLE, [*ONE_TEXT, "--csv-quotes", "keep"], "--csv-quotes keep"),
    ("t.tsv", TABLE, [*ONE_TEXT, "--labels", "1", "1"], "--labels 1 1"),
    ("t.tsv", TABLE, [*ONE_TEXT, "--labels", "<unk>", "1"], "--labels: label '<unk>'"),
]


@pytest.mark.parametrize(("name", "content", "options", "named"), FILES)
def test_a_file_of_ones_own(name, content, options, named, commands):
    path = commands.write(name, content)
    assert named in commands.fails("x", f"--from-{name.split('.')[1]}", f"train={path}", *options)


# --- several files of one's own: {SPLIT: (name, content)}, options, what the line names ------------
SPLITS = [
    ({"valid": ("v.tsv", "t\tlabel\na\ty\n"), "train": ("t.tsv", TABLE)}, [], "v.tsv line 2: label 'y'"),
    ({"train": ("t.tsv", TABLE), "test": ("v.tsv", "t\tlabel\nb\t1\nc\t-1\n")}, [], "v.tsv line 3: label '-1'"),
    ({"test": ("v.tsv", TABLE)}, [], "--labels"),
    ({"train": ("t.tsv", TABLE), "test": ("v.tsv", TABLE + TABLE)}, ["--skip-bad"], "v.tsv line 3"),
]


@pytest.mark.parametrize(("files", "options", "named"), SPLITS)
def test_files_of_ones_own(files, options, named, commands):
    given = [f"{split}={commands.write(*file)}" for split, file in files.items()]
    assert named in commands.fails("x", "--from-tsv", *given, *ONE_TEXT, *options)


# --- raw files of a task: the task, the files, options, what the line names ------------------------
RECORD = {
    "passage": {"text": "a b", "entities": [{"start": 0, "end": 0}]},
    "qas": [{"query": "@placeholder", "answers": [{"text": "a"}]}],
}
LONG = "a" * 300_000
RECORDS = [  # of a task's val.jsonl: each is named by its line
    ("WSC", {"text": "a b", "target": {"span1_text": "a", "span2_text": "b", "span2_index": 9}, "label": True}),
    ("ReCoRD", {**RECORD, "passage": {"text": "a b", "entities": [{"start": 3, "end": 99}]}}),
    ("ReCoRD", {**RECORD, "qas": [{"query": "@placeholder", "answers": []}]}),
    ("ReCoRD", {**RECORD, "qas": [{"query": "a query", "answers": [{"text": "a"}]}]}),
    ("WiC", {"word": None, "sentence1": "a", "sentence2": "b", "label": True}),
    ("COPA", {"premise": "p", "choice1": "a", "choice2": "b", "question": "cause", "label": "1"}),
    ("MultiRC", {"passage": {"text": "p", "questions": [{"question": "q", "answers": [{"text": 1, "label": 0}]}]}}),
    # under a mebibyte, of gigabytes of examples
    (
        "MultiRC",
        {"passage": {"text": LONG, "questions": [{"question": "q", "answers": 9_000 * [{"text": "a", "label": 0}]}]}},
    ),
    (
        "ReCoRD",
        {
            "passage": {"text": LONG, "entities": [{"start": 0, "end": 199_999}]},
            "qas": [{"query": 9_000 * "@placeholder", "answers": [{"text": "a"}]}],
        },
    ),
]
CB = '{"premise": "P", "hypothesis": "H"'
VALID, TEST = ["--splits", "valid"], ["--splits", "test"]
TASKS = [
    ("RET", {}, [], "RET"),
    ("RTE", {}, [], "train split of RTE"),
    ("AX", {}, [], "test split of AX"),
    ("RTE", AN_RTE, ["--splits", "dev"], "--splits dev"),
    ("RTE", AN_RTE, ["--splits", "valid", "valid"], "--splits valid valid"),
    ("RTE", AN_RTE, ["--labels", "a"], "--labels"),
    ("RTE", AN_RTE, ["--label-column", "a"], "--label-column a"),
    ("RTE", AN_RTE, ["--efl"], "--efl"),
    ("RTE", {"RTE/dev.tsv": RTE}, VALID, "dev.tsv has no examples"),
    ("RTE", {"RTE/dev.tsv": "index\tsentence1\tlabel\n0\ta\tentailment\n"}, VALID, "dev.tsv has no column sentence2"),
    ("RTE", {"RTE/dev.tsv": RTE_TEST + "0\ta\tb\n"}, VALID, "dev.tsv has no column label"),
    ("RTE", {"RTE/dev.tsv": RTE + "0\ta\tb\tmaybe\n"}, VALID, "dev.tsv line 2: label 'maybe'"),
    ("RTE", {"RTE/dev.tsv": AN_RTE["RTE/dev.tsv"] + "1\tc\n"}, [*VALID, "--strict"], "dev.tsv line 3"),
    ("RTE", {"RTE.zip": b"PK not a zip"}, [], "RTE.zip"),
    ("RTE", {"RTE/test.tsv": f"{RTE_TEST}0\tA\tB\n0\tC\tD\n"}, TEST, "test.tsv line 3: index '0'"),
    ("CB", {"CB/test.jsonl": f'{CB}, "idx": 0}}\n{CB}}}\n'}, TEST, "CB/test.jsonl"),
    *(
        ("CB", {"CB/test.jsonl": f'{CB}, "idx": {number}}}\n'}, [*TEST, "--strict"], "test.jsonl line 1")
        for number in ['"one"', "-1", "1.5", "true", "[0]"]
    ),
    *(
        (task, {f"{task}/val.jsonl": json.dumps(record)}, [*VALID, "--strict"], "val.jsonl line 1: ")
        for task, record in RECORDS
    ),
    ("CR", {"cr/train.csv": "1,nice\n5,bad\n", "cr/test.csv": "1,nice\n"}, ["--efl"], "train.csv line 2: label '5'"),
    ("MR", CR, ["--raw", "RAW/original/cr"], "original/cr is the folder of CR"),  # whose files look the same
    ("IMDB", {**IMDB, "aclImdb/train/pos/0_pos.txt": b"caf\xe9"}, [], "train/pos/0_pos.txt line 1: byte 0xe9"),
    *(
        ("IMDB", {name: text for name, text in IMDB.items() if missing not in name}, [], f"{split} split of IMDB")
        for missing, split in (("test/pos", "valid"), ("train/neg", "train"))
    ),
]


@pytest.mark.parametrize(("task", "files", "options", "named"), TASKS)
def test_a_task(task, files, options, named, commands):
    for name, content in files.items():
        commands.write(name, content)
    options = [option.replace("RAW", str(commands.raw)) for option in options]
    assert named in commands.fails(task, "--raw", commands.raw, *options)


def test_records_that_are_only_just_right(commands):
    """What RECORDS spoils is read."""
    commands.write("ReCoRD/val.jsonl", json.dumps(RECORD))
    assert commands.ok("ReCoRD", "--raw", commands.raw, *VALID, "--strict").label_names


# --- places and names ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["RTE", "--raw", "/nowhere"], "--raw /nowhere"),
        (["RTE"], "--raw, --from-tsv, --from-csv, --from-jsonl and --from-hub"),
        (["x", "--from-tsv", "train=/nowhere", *ONE_TEXT], "/nowhere"),
        (["x", "--from-tsv", "train=/tmp", *ONE_TEXT], "/tmp"),
        (["CR", "--from-tsv", "train=RAW/t.tsv", *ONE_TEXT, "--efl"], "--efl"),
        *(
            ([task, "--from-tsv", "train=RAW/t.tsv", *ONE_TEXT], ascii(task[:9])[1:-1])
            for task in ["a\0b", "a\x07b", "a\nb", "", "..", ".", "a/b", "x" * 300, "caf\udce9"]
        ),
    ],
)
def test_places_and_names(arguments, named, commands):
    for name, content in {**AN_RTE, "t.tsv": TABLE}.items():
        commands.write(name, content)
    error = commands.fails(*(argument.replace("RAW", str(commands.raw)) for argument in arguments))
    assert named in error and error[:-1].isprintable()


def test_a_dictionary_that_lacks_pieces(commands):
    (commands.vocab / "dict.txt").write_text("1 1\n")
    commands.write("t.tsv", TABLE)
    own = ("x", "--from-tsv", f"train={commands.raw / 't.tsv'}", *ONE_TEXT)
    assert "dict.txt" in commands.fails(*own) and "--vocab /nowhere" in commands.fails(*own, vocab="/nowhere")


def test_a_hub_package_that_runs_scripts_of_data_sets(commands, monkeypatch):
    install_hub(monkeypatch, None, version="3.6.0")
    assert "datasets 3.6.0" in commands.fails("y", "--from-hub", "d", *ONE_TEXT)


def test_a_line_that_never_ends(commands, monkeypatch):
    monkeypatch.setattr("preprocess.sources.LONGEST", 1 << 20)
    path = commands.write("t.tsv", b"t\tlabel\nok\t1\n" + b"a" * (3 << 20))
    assert "t.tsv line 3" in commands.fails("x", "--from-tsv", f"train={path}", *ONE_TEXT)


def test_a_damaged_member_of_an_archive(commands):
    archive = commands.raw / "RTE.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr("RTE/dev.tsv", RTE + "0\ta\tb\tentailment\n" * 5000)
    content = bytearray(archive.read_bytes())
    content[60:90] = bytes(30)
    archive.write_bytes(bytes(content))
    assert "RTE.zip" in commands.fails("RTE", "--raw", commands.raw, *VALID)


# --- what is there stays ---------------------------------------------------------------------------
def raw_rte(commands):
    for name, content in AN_RTE.items():
        commands.write(name, content)
    return commands.raw


def test_existing_folder(commands):
    raw = raw_rte(commands)
    data = commands.ok("RTE", "--raw", raw)
    before = token_digests(data, "train")
    assert commands.run("RTE", "--raw", raw) == 1
    assert "RTE-bin" in commands.capsys.readouterr().err
    commands.write("RTE/train.tsv", RTE + "0\tbad\tlabel\tnone\n")
    assert commands.run("RTE", "--raw", raw, "--overwrite") == 1
    assert token_digests(data, "train") == before  # a failure keeps the old folder
    assert [path.name for path in commands.out.iterdir()] == ["RTE-bin"]


def test_out_is_a_file(commands):
    commands.out.write_text("")
    assert commands.run("RTE", "--raw", raw_rte(commands)) == 1
    assert "--out" in commands.capsys.readouterr().err and commands.out.read_text() == ""


def test_full_disk(commands, monkeypatch):
    raw, real = raw_rte(commands), builtins.open

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
    assert "No space left on device" in commands.fails("RTE", "--raw", raw)


def test_interruption(commands, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    raw = raw_rte(commands)
    monkeypatch.setattr("preprocess.binarize.Labels.add", interrupted)
    assert "interrupted" in commands.fails("RTE", "--raw", raw)
