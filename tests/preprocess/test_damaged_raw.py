"""Raw files that are damaged, or hold other things than text: one clear line, or a record skipped with a word."""

import gzip
import json
import random
import subprocess
import sys
import zipfile

import pytest

from tests.folders import ROOT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"t\tlabel\nok\t1\nb\0d\t1\n", "t.tsv line 3 has a NUL byte"),
        (b"t\tlabel\n" + b"text\t1\n" * 300_000 + b"\0", "t.tsv line 300002 has a NUL byte"),
        (b"PK\x03\x04 and more", "t.tsv line 1: this is no text but a zip archive: unpack it"),
        (b"\x1f\x8b and more", "t.tsv line 1: this is no text but compressed with gzip"),
        ("t\tlabel\n".encode("utf-16"), "t.tsv line 1: this is no text but UTF-16: convert it with iconv"),
        (b"PAR1", "t.tsv line 1: this is no text but a parquet file"),
    ],
)
def test_what_is_no_text(content, message, commands):
    path = commands.write("t.tsv", content)
    assert message in commands.fails("x", "--from-tsv", f"train={path}", "--text-columns", "t")


def test_a_line_that_never_ends(commands, monkeypatch):
    monkeypatch.setattr("preprocess.sources.LONGEST", 1 << 20)
    path = commands.write("t.tsv", b"t\tlabel\nok\t1\n" + b"a" * (3 << 20))
    error = commands.fails("x", "--from-tsv", f"train={path}", "--text-columns", "t")
    assert "t.tsv line 3 has more than 1 MiB: it is no text with an example in each line" in error


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
        ("t.jsonl.gz", ['{"text": "', *[FILL] * 80, '"}\n'], 1),
        ("t.tsv.gz", ["text\tlabel\n", *["\n" * (1 << 20)] * 100], 1_000_002),  # lines that are malformed
        ("t.tsv.gz", ["text\tlabel\n", *[f"{FILL}\t1\n"] * 130], None),  # examples of the longest
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
    ran = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True)
    assert path.stat().st_size < 1 << 20 and int(ran.stdout.split()[-1]) < 400 << 10  # KiB
    assert ran.returncode == (0 if line is None else 1), ran.stderr
    assert line is None or f"{path} line {line}" in ran.stderr and not list(commands.out.glob("*"))


def test_a_folder_in_place_of_a_file(commands):
    (commands.raw / "t.tsv").mkdir()
    error = commands.fails("x", "--from-tsv", f"train={commands.raw / 't.tsv'}", "--text-columns", "t")
    assert "t.tsv does not exist or is not a file" in error


@pytest.mark.parametrize("line", ["{", "[" * 100_000, "1", '"a"', '{"t": 1, "label": 0}', '{"t": "a", "label": [1]}'])
def test_a_damaged_record_is_skipped_with_a_word_or_an_error(line, commands):
    path = commands.write("t.jsonl", f'{{"t": "a", "label": 1}}\n{line}\n{{"t": "b", "label": 0}}\n')
    options = ["--from-jsonl", f"train={path}", "--text-columns", "t"]
    assert "t.jsonl line 2: " in commands.fails("x", *options, "--strict")
    assert commands.texts(commands.ok("x", *options), "train") == ["a", "b"]
    assert "t.jsonl: skipped line 2: " in commands.capsys.readouterr().out


WRONG_TYPES = {
    "WiC": {"word": None, "sentence1": "a", "sentence2": "b", "label": True},
    "COPA": {"premise": "p", "choice1": "a", "choice2": "b", "question": "cause", "label": "1"},
    "MultiRC": {"passage": {"text": "p", "questions": [{"question": "q", "answers": [{"text": 1, "label": 0}]}]}},
}


@pytest.mark.parametrize("name", list(WRONG_TYPES))
def test_records_with_other_types_of_values(name, commands):
    commands.write(f"{name}/val.jsonl", json.dumps(WRONG_TYPES[name]) + "\n")
    error = commands.fails(name, "--raw", commands.raw, "--splits", "valid", "--strict")
    assert "val.jsonl line 1: not such a record (" in error


LONG, PLACE = "a" * 300_000, {"start": 0, "end": 199_999}
MULTIPLYING = {
    "MultiRC": {
        "passage": {"text": LONG, "questions": [{"question": "q", "answers": 9_000 * [{"text": "a", "label": 0}]}]}
    },
    "ReCoRD": {
        "passage": {"text": LONG, "entities": [PLACE]},
        "qas": [{"query": 9_000 * "@placeholder", "answers": []}],
    },
}


@pytest.mark.parametrize("name", list(MULTIPLYING))
def test_records_whose_parts_multiply(name, commands):
    """Lines of under a mebibyte, of gigabytes of examples."""
    commands.write(f"{name}/val.jsonl", json.dumps(MULTIPLYING[name]) + "\n")
    error = commands.fails(name, "--raw", commands.raw, "--splits", "valid", "--strict")
    assert "val.jsonl line 1: not such a record (" in error


@pytest.mark.parametrize("kind", ["zip", "gz"])
def test_archives_damaged_at_random(kind, commands):
    """Flips, cuts and zeroed blocks: an error, or the same texts."""
    text = "index\tsentence1\tsentence2\tlabel\n" + "".join(
        f"{i}\tfirst {i}\tsecond {i}\tentailment\n" for i in range(200)
    )
    if kind == "zip":
        with zipfile.ZipFile(commands.raw / "RTE.zip", "w", zipfile.ZIP_DEFLATED) as writer:
            writer.writestr("RTE/dev.tsv", text)
        arguments = ["RTE", "--raw", commands.raw, "--splits", "valid"]
        path, split = commands.raw / "RTE.zip", "valid"
    else:
        path, split = commands.raw / "t.tsv.gz", "train"
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        arguments = ["RTE", "--from-tsv", f"train={path}", "--text-columns", "sentence1", "--strict"]
    whole = path.read_bytes()
    expected = commands.texts(commands.ok(*arguments), split)
    for seed in range(60):
        draw = random.Random(seed)
        content, at = bytearray(whole), draw.randrange(len(whole))
        if seed % 3 == 0:
            content[at] ^= 1 << draw.randrange(8)
        elif seed % 3 == 1:
            del content[at:]
        else:
            content[at : at + 20] = bytes(len(content[at : at + 20]))
        path.write_bytes(bytes(content))
        if commands.run(*arguments, "--overwrite") == 0:
            assert commands.texts(commands.ok(*arguments, "--overwrite"), split) == expected
        else:
            error = commands.capsys.readouterr().err
            assert error.startswith("preprocess: ") and error.count("\n") == 1, error
