"""Rows that are left out: counted, told of, and their places kept."""

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


def test_wrong_number_of_fields_is_skipped_and_counted_or_an_error(commands):
    rows = "1\t2\t3\ta\tb\t0\n4\t5\t6\tbroken\n7\t8\t9\tx\ty\tz\t1\n1\t1\t1\tc\td\t1\n"
    path = commands.write("QQP/dev.tsv", QQP + rows)
    assert "dev.tsv line 3" in commands.fails("QQP", "--raw", commands.raw, "--splits", "valid", "--strict")
    data = commands.ok("QQP", "--raw", commands.raw, "--splits", "valid")
    assert commands.texts(data, "valid") == ["a", "c"]
    shown = commands.capsys.readouterr().out
    assert f"{path}: skipped line 3: " in shown and "; line 4: " in shown


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
    with pytest.raises(InputError, match="left_out/valid.txt"):
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
