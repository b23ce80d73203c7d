"""Rows that are left out are counted, told of, and keep their places; no file makes memory grow or a reader fail."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preprocess.data_folder import DataFolder
from preprocess.errors import InputError
from preprocess.readers import LAYOUTS, RECORDS, Columns, Row
from preprocess.sources import Source
from preprocess.tasks import FOLDERS
from tests.preprocess.commands import run

SIGNS = {"tsv": "\t", "csv": ",", "jsonl": ""}


def row_of(kind, text):
    return f"{text}{SIGNS[kind]}1\n" if SIGNS[kind] else f'{{"text": "{text}", "label": 1}}\n'


@pytest.mark.parametrize("kind", SIGNS)
def test_a_malformed_row_of_a_test_split_keeps_its_place(kind, commands, monkeypatch):
    """Chunks of two, so that one is behind the last example of a chunk, one in the middle, one at the end."""
    monkeypatch.setattr("preprocess.build.CHUNK", 2)
    rows, sign = ["a", None, "b", "c", None, None, "d", "e", None], SIGNS[kind]
    bad = f"x{sign}y{sign}z\n" if sign else "{\n"
    header = f"text{sign}label\n" if sign else ""
    known = commands.write(f"train.{kind}", header + 2 * row_of(kind, "a"))
    path = commands.write(f"test.{kind}", header + "".join(row_of(kind, row) if row else bad for row in rows))
    own = ("x", f"--from-{kind}", f"train={known}", f"valid={path}", "--text-columns", "text")
    test = (*own[:3], f"test={path}", *own[4:])
    assert f"{path} line {2 + bool(sign)}: " in (error := commands.fails(*test)) and "--skip-bad" in error
    for options in ((*test, "--skip-bad"), own):
        data = commands.ok(*options, "--overwrite")
        split = data.splits[-1]
        assert commands.texts(data, split) == ["a", "b", "c", "d", "e"]
        lines = [number + 1 + bool(sign) for number, text in enumerate(rows) if text is None]
        assert data.left_out(split) == list(zip([1, 3, 3, 5], lines)) and data.left_out("train") == []
    assert run(["few-shot", "x", "--data", data.path, "--out", commands.out, "--k", 1, "--dev", 1]) == 0
    assert DataFolder(commands.out / "x-K1-seed1-bin").left_out("test") == data.left_out("valid")


@pytest.mark.parametrize("kind", SIGNS)
def test_empty_lines_keep_their_places(kind, commands):
    """Those between rows; whatever reads lines counts them, and nothing counts those at the end."""
    header, a = f"text{SIGNS[kind]}label\n" if SIGNS[kind] else "", row_of(kind, "a")
    text = f"{a}\n\n{a}\n{a}\n"
    files = [f"train={commands.write('train', header + a)}", f"test={commands.write('test', header + text)}"]
    data = commands.ok("x", f"--from-{kind}", *files, "--text-columns", "text", "--strict")
    first = 2 + bool(header)
    assert data.left_out("test") == [(1, first), (1, first + 1), (2, first + 3)]


FIELDS = {"tsv": Columns(["a", "b"], "label", True), "csv": Columns(["a", "b"], "label", True)}
FIELDS.update(dict.fromkeys(RECORDS, Columns(["a", "b"], "label", False)))
FIELDS["csv-with-quotes"] = FIELDS[FOLDERS] = Columns((1,), 0, False)
PIECES = [
    *("a", "b", "label", ",", "\t", "\n", "\r\n", '"', "{", "}", ":", "\u00e9", "[1]", " "),
    '{"a": "x", "b": "y", "label": 1}',
    '{"text": "a b", "target": {"span1_text": "a", "span2_text": "b", "span2_index": 1}, "label": true}',
    '{"passage": {"text": "a b", "entities": [{"start": 0, "end": 1}]}, "qas": [{"query": "@placeholder"}]}',
]


@pytest.mark.parametrize("layout", list(LAYOUTS))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.one_of(st.binary(), st.lists(st.sampled_from(PIECES)).map(lambda parts: "".join(parts).encode())))
def test_readers_survive_anything(layout, content, tmp_path):
    """Rows of the right shape, or a InputError; every other exception is a bug."""
    path = tmp_path / "fuzz"
    path.write_bytes(b"a\tb\tlabel\n" * (layout == "tsv") + b"a,b,label\n" * (layout == "csv") + content)
    columns = FIELDS[layout]
    source = Source.file(path)
    try:
        items = list(LAYOUTS[layout](source.lines(), columns, source.name))
    except InputError as error:
        assert "fuzz" in str(error)
        return
    for row in (item for item in items if isinstance(item, Row)):
        assert row.line >= 1 and len(row.texts) in (1, 2) and all(isinstance(text, str) for text in row.texts)
        assert row.label is None or isinstance(row.label, str)
        "".join(row.texts).encode("utf-8")


FILL = "ab " * (1 << 18)  # 768 KiB
MEMORY = """
import sys
from preprocess import cli
try:
    cli.run(sys.argv[1:])
finally:
    print(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0])
"""


@pytest.mark.parametrize(
    ("name", "parts", "line"),
    [
        ("t.tsv.gz", ["text\tlabel\n", *[FILL] * 80, "\t1\n"], 2),  # a line
        ("t.csv.gz", ["text,label\n", '"', *["a b\n" * (1 << 18)] * 100], 2),  # a field of many lines
        ("t.csv.gz", ["text,label\n", '"\n', *['x","x\n' * (1 << 18)] * 100], 2),  # a row of many fields
        ("t.tsv.gz", ["text\tlabel\n", *["\n" * (1 << 20)] * 100], 1_000_002),  # lines that are malformed
        ("t.tsv.gz", ["text\tlabel\n", *[f"{FILL}\t1\n"] * 60], None),  # examples of the longest
    ],
)
def test_memory_does_not_grow_with_what_an_archive_unpacks_to(name, parts, line, commands):
    """Some 100 KB unpack to 30 MB and more; reading and encoding take as much as for a small file."""
    path = commands.raw / name
    with gzip.open(path, "wt") as file:
        file.writelines(parts)
    kind = name.split(".")[1]
    options = ["x", f"--from-{kind}", f"train={path}", "--text-columns", "text"]
    command = [sys.executable, "-c", MEMORY, *options, "--out", commands.out, "--vocab", commands.vocab]
    ran = subprocess.run([str(part) for part in command], cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert path.stat().st_size < 1 << 20 and int(ran.stdout.split()[-1]) < 250 << 10  # KiB
    assert ran.returncode == (0 if line is None else 1), ran.stderr
    assert line is None or f"{path} line {line}" in ran.stderr and not list(commands.out.glob("*"))


@pytest.mark.parametrize(
    "line", ["{", "[" * 100_000, '{"t": 1, "label": 0}', '{"t": "a", "t": "b", "label": 0}', '{"t": "a", "label": NaN}']
)
def test_a_damaged_record_is_skipped_with_a_word_or_an_error(line, commands):
    path = commands.write("t.jsonl", f'{{"t": "a", "label": 1}}\n{line}\n{{"t": "b", "label": 0}}\n')
    options = ["--from-jsonl", f"train={path}", "--text-columns", "t"]
    assert "t.jsonl line 2: " in commands.fails("x", *options, "--strict")
    assert commands.texts(commands.ok("x", *options), "train") == ["a", "b"]
    assert "t.jsonl: skipped line 2: " in commands.capsys.readouterr().out
