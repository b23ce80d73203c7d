"""Refusals as data: what is given, what the one line names; nothing is written, and what is there stays."""

import errno
import gzip
import json
import sys

import pytest

from preprocess.data_folder import check_split
from tests.preprocess.commands import install_hub

TABLE = "t\tlabel\na\t1\n"
RTE = "index\tsentence1\tsentence2\tlabel\n"
AN_RTE = {f"RTE/{file}.tsv": RTE + "0\ta\tb\tentailment\n" for file in ("train", "dev")}
CR = {f"original/cr/{split}.csv": "1,fine\n0,awful\n" for split in ("train", "test")}
IMDB = {f"aclImdb/{split}/{label}/0_{label}.txt": "text" for split in ("train", "test") for label in ("pos", "neg")}
TEXT = ["--text-columns", "t"]
SCORES = [*TEXT, "--regression"]
VALID, TEST = ["--splits", "valid"], ["--splits", "test"]


def own(name, content, *options, task="x"):
    """The command and the file of a training split of one's own."""
    return [task, f"--from-{name.split('.')[1]}", f"train=RAW/{name}", *options], {name: content}


def several(files, *options):
    """Splits of one's own: {SPLIT: lines}."""
    given = [f"{split}=RAW/{split}.tsv" for split in files]
    return ["x", "--from-tsv", *given, *TEXT, *options], {f"{split}.tsv": text for split, text in files.items()}


def raw(task, files, *options):
    return [task, "--raw", "RAW", *options], files


LONG, AN_ANSWER = "a" * 300_000, {"text": "a", "label": 0}
A_LONG_ENTITY = {"text": LONG, "entities": [{"start": 0, "end": 199_999}]}
READ_RECORD = {
    "passage": {"text": "a b", "entities": [{"start": 0, "end": 0}]},
    "qas": [{"query": "@placeholder", "answers": [AN_ANSWER]}],
}
RECORDS = [  # of a task's val.jsonl
    ("WSC", {"text": "a b", "target": {"span1_text": "a", "span2_text": "b", "span2_index": 9}, "label": True}),
    ("ReCoRD", {**READ_RECORD, "passage": {"text": "a b", "entities": [{"start": 3, "end": 99}]}}),
    ("ReCoRD", {**READ_RECORD, "qas": [{"query": "@placeholder", "answers": []}]}),
    ("ReCoRD", {**READ_RECORD, "qas": [{"query": "a query", "answers": [AN_ANSWER]}]}),
    ("COPA", {"premise": "p", "choice1": "a", "choice2": "b", "question": "cause", "label": "1"}),
    # under a mebibyte, of gigabytes of examples
    ("MultiRC", {"passage": {"text": LONG, "questions": [{"question": "q", "answers": 9_000 * [AN_ANSWER]}]}}),
    ("ReCoRD", {"passage": A_LONG_ENTITY, "qas": [{"query": 9_000 * "@placeholder", "answers": [AN_ANSWER]}]}),
]
CB = '{"premise": "P", "hypothesis": "H"'
HEADER_AGAIN = [*TEXT, "--skip-bad"]  # LABEL would be a class
BAD_LABELS = ["", "<unk>", "madeupword0003"]
SPELLINGS = [("01", "1.0"), ("yes", "Yes"), ("a b", "a  b"), ("caf\xe9", "cafe\u0301")]
REFUSED = [  # arguments, files, what the line names
    # what is no text
    (*own("t.tsv", b"t\tlabel\nok\t1\ncaf\xe9\t1\n", *TEXT), "t.tsv line 3: byte 0xe9"),
    (*own("t.tsv", b"t\tlabel\n" + b"text\t1\n" * 150_000 + b"\xff\t1\n", *TEXT), "t.tsv line 150002: byte 0xff"),
    (*own("t.tsv", b"t\tlabel\nok\t1\nb\0d\t1\n", *TEXT), "t.tsv line 3"),
    (*own("t.tsv", b"t\tlabel\nok\t1\n" + b"a" * (3 << 20), *TEXT), "t.tsv line 3"),
    (*own("t.tsv.xz", TABLE, *TEXT), "t.tsv.xz is neither plain text nor a .gz file: unpack it"),
    (*own("t.csv.XLSX", TABLE, *TEXT), "t.csv.XLSX is neither plain text nor a .gz file: save its table as CSV"),
    (*own("t.tsv.gz", gzip.compress(TABLE.encode() * 999, mtime=0)[:-9], *TEXT), "t.tsv.gz"),
    # columns and rows
    (*own("t.tsv", b"t\tlabel\ra\t1\rb\t0\r", *TEXT), "t.tsv"),
    (*own("t.csv", "t,label,t,id,id\nA,1,B,1,1\n", "--text-columns", "id"), "t.csv has two columns id:"),
    (*own("t.csv", 't,label\nfine,1\n"never closed,0\nmore,1\n', *TEXT), "t.csv line 3"),
    (*own("t.jsonl", '[\n{"t": "a", "label": 1},\n{"t": "b", "label": 1}\n]', *TEXT), "t.jsonl is one JSON list"),
    (*own("t.tsv", "t\tlabel\r\ngood\t1\r\nT\t LABEL\r\nbad\t0\r\n", *HEADER_AGAIN), "t.tsv line 3"),
    (*own("t.csv", '\ufeff"t",label\ngood,1\n\ufefflabel,t\nbad,0\n', *HEADER_AGAIN), "t.csv line 3"),
    (*several({"train": TABLE, "test": TABLE + TABLE}, "--skip-bad"), "test.tsv line 3"),
    # labels: names, spellings, scores, classes
    *((*own("t.tsv", f"{TABLE}b\t{label}\n", *TEXT), "t.tsv line 3: label") for label in BAD_LABELS),
    *((*own("t.tsv", f"t\tlabel\na\t{a}\nb\tx\nc\t{b}\n", *TEXT), "t.tsv line 4: label") for a, b in SPELLINGS),
    *(
        (*own("t.tsv", f"t\tlabel\na\t1.5\nb\t{score}\n", *SCORES), f"t.tsv line 3: score {score!r}")
        for score in ["nan", "4_5"]
    ),
    (*several({"valid": "t\tlabel\na\ty\n", "train": TABLE}), "valid.tsv line 2: label 'y'"),
    (*several({"valid": "t\tlabel\na\t2.5\n", "train": TABLE}), "give --regression if labels are scores"),
    (*several({"train": TABLE, "test": "t\tlabel\nb\t1\nc\t-1\n"}), "test.tsv line 3: label '-1'"),
    (*several({"test": TABLE}), "--labels"),
    # options beside a good file
    *(
        (*own("t.tsv", TABLE, *options), named)
        for options, named in [
            ([], "--text-columns"),
            ([*SCORES, "--efl"], "--efl"),
            ([*TEXT, "--labels", "1", "--efl"], "--efl"),
            ([*TEXT, "--swap-pairs", "append"], "--swap-pairs append"),
            ([*TEXT, "--labels", "1", "1"], "--labels 1 1"),
        ]
    ),
    (*own("t.tsv", TABLE, *TEXT, task="a/b"), "TASK 'a/b'"),
    # published files
    (["RTE"], {}, "--raw, --from-tsv, --from-csv, --from-jsonl and --from-hub"),
    (*raw("RET", {}), "RET"),
    (*raw("RTE", {}), "train split of RTE"),
    (*raw("RTE", {"RTE/dev.tsv": RTE + "0\ta\tb\tmaybe\n"}, *VALID), "dev.tsv line 2: label 'maybe'"),
    (*raw("RTE", {"RTE/dev.tsv": AN_RTE["RTE/dev.tsv"] + "1\tc\n"}, *VALID, "--strict"), "dev.tsv line 3"),
    (
        *raw("RTE", {"RTE/test.tsv": "index\tsentence1\tsentence2\n0\tA\tB\none\tC\tD\n"}, *TEST),
        "test.tsv line 3: index 'one'",
    ),
    (*raw("CB", {"CB/test.jsonl": f'{CB}, "idx": 0}}\n{CB}}}\n'}, *TEST), "CB/test.jsonl"),
    *(
        (*raw(task, {f"{task}/val.jsonl": json.dumps(record)}, *VALID, "--strict"), "val.jsonl line 1: ")
        for task, record in RECORDS
    ),
    (["MR", "--raw", "RAW/original/cr"], CR, "original/cr is the folder of CR"),  # whose files look the same
    (*raw("IMDB", {name: text for name, text in IMDB.items() if "test/pos" not in name}), "valid split of IMDB"),
]


@pytest.mark.parametrize(("arguments", "files", "named"), REFUSED)
def test_refused(arguments, files, named, commands):
    for name, content in files.items():
        commands.write(name, content)
    error = commands.fails(*(argument.replace("RAW", str(commands.raw)) for argument in arguments))
    assert named in error and error[:-1].isprintable()


def test_a_record_that_is_only_just_right(commands):
    """What RECORDS spoils is read."""
    commands.write("ReCoRD/val.jsonl", json.dumps(READ_RECORD))
    assert commands.ok("ReCoRD", "--raw", commands.raw, *VALID, "--strict").label_names


def test_a_vocabulary_that_is_not_there_or_lacks_pieces(commands):
    options = ["x", "--from-tsv", f"train={commands.write('t.tsv', TABLE)}", *TEXT]
    (commands.vocab / "dict.txt").write_text("1 1\n")
    assert "dict.txt" in commands.fails(*options)
    assert "--vocab /nowhere" in commands.fails(*options, vocab="/nowhere")


def test_a_hub_package_that_runs_scripts_of_data_sets_or_is_not_there(commands, monkeypatch):
    install_hub(monkeypatch, None, version="3.6.0")
    assert "datasets 3.6.0" in commands.fails("y", "--from-hub", "d", *TEXT)
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "pip install 'datasets" in commands.fails("y", "--from-hub", "d", *TEXT)


@pytest.fixture
def rte(commands):
    for name, content in AN_RTE.items():
        commands.write(name, content)
    return ["RTE", "--raw", commands.raw]


def test_existing_folder(commands, rte):
    data = commands.ok(*rte)
    before = (data.path / "input0" / "train.bin").read_bytes()
    assert commands.run(*rte) == 1
    assert "RTE-bin" in commands.capsys.readouterr().err
    commands.write("RTE/train.tsv", RTE + "0\tbad\tlabel\tnone\n")
    assert commands.run(*rte, "--overwrite") == 1  # a failure keeps the old folder
    assert (data.path / "input0" / "train.bin").read_bytes() == before and check_split(data, "train") == 1
    assert [path.name for path in commands.out.iterdir()] == ["RTE-bin"]


def test_a_folder_that_holds_anything_else_is_not_replaced(commands, rte):
    """Raw files and the vocabulary may lie there, or what is somebody's own; other runs' word vectors do go."""
    data = commands.ok(*rte)
    for mine in ("thesis.txt", "input0/train.tsv", "glove/vectors.txt"):
        (file := data.path / mine).parent.mkdir(exist_ok=True)
        file.write_text("mine")
        assert commands.run(*rte, "--overwrite") == 1 and f" {mine} " in commands.capsys.readouterr().err
        assert file.read_text() == "mine"
        file.unlink()
    (data.path / "glove" / "glove.json").write_text("{}")
    commands.ok(*rte, "--overwrite")
    assert not (data.path / "glove").exists()


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_full_disk_and_an_interruption(commands, rte, monkeypatch, failure):
    def fail(*_):
        raise failure

    monkeypatch.setattr("preprocess.indexed.IndexedWriter.write", fail)
    assert (str(commands.out) if isinstance(failure, OSError) else "interrupted") in commands.fails(*rte)
