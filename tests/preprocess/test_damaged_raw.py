"""Raw files that are damaged, or hold other things than text: one clear line, or a record skipped with a word."""

import gzip
import random
import subprocess
import sys
import zipfile

import pytest

from tests.folders import ROOT

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


@pytest.mark.parametrize("line", ["{", "[" * 100_000, "1", '"a"', '{"t": 1, "label": 0}', '{"t": "a", "label": [1]}'])
def test_a_damaged_record_is_skipped_with_a_word_or_an_error(line, commands):
    path = commands.write("t.jsonl", f'{{"t": "a", "label": 1}}\n{line}\n{{"t": "b", "label": 0}}\n')
    options = ["--from-jsonl", f"train={path}", "--text-columns", "t"]
    assert "t.jsonl line 2: " in commands.fails("x", *options, "--strict")
    assert commands.texts(commands.ok("x", *options), "train") == ["a", "b"]
    assert "t.jsonl: skipped line 2: " in commands.capsys.readouterr().out


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
