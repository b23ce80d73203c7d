"""Rows that are left out are counted, told of, and keep their places; no file makes memory grow."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from preprocess.data_folder import DataFolder
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
        ("t.tsv.gz", ["text\tlabel\n", *[FILL] * 40, "\t1\n"], 2),  # a line
        ("t.csv.gz", ["text,label\n", '"', *["a b\n" * (1 << 18)] * 32], 2),  # a field of many lines
        ("t.csv.gz", ["text,label\n", '"\n', *['x","x\n' * (1 << 18)] * 32], 2),  # a row of many fields
        ("t.tsv.gz", ["text\tlabel\n", *["\n" * (1 << 20)] * 32], 1_000_002),  # lines that are malformed
        ("t.tsv.gz", ["text\tlabel\n", *[f"{FILL}\t1\n"] * 40], None),  # examples of the longest
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
