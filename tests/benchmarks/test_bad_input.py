"""benchmarks/many_tasks.py and benchmarks/preprocess_time.py: what cannot be measured is said in a line."""

from __future__ import annotations

import sys

import many_tasks
import preprocess_time
import pytest

NO_BPE = {"encoder.json": '{"\u0120red": 0, "\u0120blue": 1}', "vocab.bpe": "#version: 0.2\n", "dict.txt": ""}


@pytest.mark.parametrize(
    ("script", "words", "said"),
    [
        (many_tasks, ["x.pt", "--text", "none.txt", "--rounds", "0"], "error: --rounds 0 is too small: give 1 or more"),
        (many_tasks, ["x.pt", "--text", "none.txt"], "error: --text none.txt is not a file: name one"),
        (preprocess_time, ["--rounds", "0"], "error: --rounds 0 is too small: give 1 or more"),
        (preprocess_time, ["--file", "none"], "error: none does not exist or is not a file: name the file to read"),
        (preprocess_time, ["--file", "latin.txt"], "error: latin.txt line 1: byte 0xe9 is not UTF-8: convert the file"),
        (preprocess_time, ["--vocab", "none"], "/none/encoder.json: No such file or directory"),
    ],
)
def test_in_one_line(script, words, said, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    monkeypatch.setattr(sys, "argv", [script.__name__, *words])
    with pytest.raises(SystemExit) as raised:
        script.main()
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_the_reason_of_a_command_that_fails(monkeypatch, tmp_path):
    for name, text in NO_BPE.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(preprocess_time, "fairseq_way", lambda *_: 0.0)
    monkeypatch.setattr(sys, "argv", ["preprocess_time", "--vocab", str(tmp_path), "--lines", "2", "--rounds", "1"])
    with pytest.raises(SystemExit, match="^error: .*") as raised:
        preprocess_time.main()
    assert "PEAK" not in str(raised.value) and str(tmp_path) in str(raised.value)
