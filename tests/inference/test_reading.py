"""Files of sentences: every line is read or refused by its number."""

from __future__ import annotations

import gzip
import json
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.inference.reading import TextFile, of_json
from preprocess.errors import InputError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
READ = {
    ("lines", b"one\r\ntwo\ttabs \n three\n"): ["one", "two\ttabs ", " three"],
    ("lines", "\ufeffone\nohne Ende: ä".encode()): ["one", "ohne Ende: ä"],
    ("tab", b"a b\tc\nd\te f\n"): [("a b", "c"), ("d", "e f")],
    ("jsonl", b'"a\\nb"\n{"sentence": "c", "label": 1}\n'): ["a\nb", "c"],
    ("lines", b"a\nsentence\n"): ["a", "sentence"],
    ("jsonl", b'["sentence1", "sentence2"]\n'): [("sentence1", "sentence2")],
    ("jsonl", b'["a", "b"]\n{"idx": 0, "sentence2": "d", "sentence1": "c"}\n'): [("a", "b"), ("c", "d")],
}
REFUSED = {
    ("lines", b"one\n\nthree\n"): "line 2: an empty sentence: mend the line",
    ("lines", b"sentence\none\n"): "line 1 names columns: leave it out, or give JSON lines if it is a text of its own",
    ("tab", b"\xef\xbb\xbfsentence1\tsentence2\r\na\tb\n"): "line 1 names columns: leave it out, or give JSON lines",
    ("tab", b"Sentence1\tSentence2\na\tb\n"): "line 1 names columns: leave it out, or give JSON lines",
    ("tab", b"a\tb\n\xef\xbb\xbfsentence1\tsentence2\nc\td\n"): "line 2 names columns: leave it out, or give JSON",
    ("lines", b"one\n \t\n"): "line 2: a sentence of white space",
    ("lines", b"one\tgood\ntwo\tbad\n"): "line 1 has a tab, as those of a table have: give --pairs tab for the two",
    ("lines", b"one\ntwo \xff\n"): "line 2: byte 0xff is not UTF-8",
    ("lines", b"one\nt\0wo\n"): "line 2 has a NUL byte",
    ("lines", b""): "has no lines",
    ("lines", b"one\rtwo\r"): "has a CR at the ends of its lines: convert it",
    ("tab", b"a\tb\nalone\n"): "line 2: 1 columns instead of the 2 of a pair",
    ("tab", b"a\tb\tc\n"): "line 1: 3 columns instead",
    ("tab", b"a\t \n"): "line 1: the second sentence is empty",
    ("tab", b"\tb\n"): "line 1: the first sentence is empty",
    ("jsonl", b'"a"\n\n'): "line 2: an empty sentence",
    ("jsonl", b'"a"\n{"sentence": \n'): "line 2: not JSON",
    ("jsonl", b'{"sentence": 3}\n'): "line 1: not a string, a list of two",
    ("jsonl", b'{"text": "a"}\n'): "line 1: not a string",
    ("jsonl", b'{"sentence": "a", "sentence2": "b"}\n'): "line 1: not a string",
    ("jsonl", b'["a"]\n'): "line 1: not a string",
    ("jsonl", b'{"sentence": "a", "sentence": "b"}\n'): "line 1: not JSON (a key is there twice)",
    ("jsonl", b'["a", "\\ud800"]\n'): "line 1: it has half of a surrogate pair, which is no sign: cut texts between",
    ("jsonl", b'{"sentence": "\\udc00"}\n'): "line 1: it has half of a surrogate pair",
    ("jsonl", b'["a", "b", 3]\n'): "line 1: not a string",
    ("jsonl", b'"a"\n["a", "b"]\n'): "line 2: sentences and pairs of sentences are mixed",
    ("jsonl", b"[" * 100_000 + b"\n"): "line 1: not JSON",
}


def texts_of(path, layout: str, size: int = 2) -> list:
    return [line.text for chunk in TextFile(str(path), layout).chunks(size) for line in chunk]


@pytest.mark.parametrize(
    "layout, content, told",
    [
        ("lines", b'"red"\n"he said ""red"""\n"""red"" he said"\n', "line 2"),
        ("tab", b'"a, b"\t"c"\nd\t"say ""e"""\n', "line 2"),
        ("lines", b'"red", he said, "cat"\n"red"\n', None),
        ("jsonl", b'"\\"say \\"\\"e\\"\\"\\""\n', None),
    ],
)
def test_a_text_that_looks_quoted_as_in_csv_is_told_of(layout, content, told, tmp_path, caplog):
    """Its quotes are read as its own, which they seldom are: once, for the first."""
    (tmp_path / "x").write_bytes(content)
    texts_of(tmp_path / "x", layout)
    expected = f"{tmp_path / 'x'} {told} looks quoted as in csv, and texts keep their quotes"
    assert [text.split(";")[0] for text in caplog.messages] == ([expected] if told else [])


@pytest.mark.parametrize("layout, content", READ)
def test_layouts(layout, content, tmp_path):
    (tmp_path / "x").write_bytes(content)
    (tmp_path / "x.gz").write_bytes(gzip.compress(content))
    assert texts_of(tmp_path / "x", layout) == texts_of(tmp_path / "x.gz", layout) == READ[layout, content]


@pytest.mark.parametrize("layout, content", REFUSED)
def test_bad_lines_are_named(layout, content, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        texts_of(path, layout)
    assert str(error.value).startswith(f"{path} {REFUSED[layout, content]}")


@given(st.one_of(TEXT, st.tuples(TEXT, TEXT)))
def test_json_is_read_back(text):
    values = [text] if isinstance(text, str) else [list(text)]
    keys = {"sentence": text} if isinstance(text, str) else dict(zip(("sentence1", "sentence2"), text))
    assert {of_json(json.dumps(value)) for value in (*values, keys)} == {text}


@given(st.lists(TEXT.map(lambda text: " ".join(text.split()) or "x").filter(lambda text: "\0" not in text), max_size=7))
def test_chunks_hold_every_line_once(tmp_path_factory, lines):
    path = tmp_path_factory.getbasetemp() / "lines.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    if lines:
        chunks = list(TextFile(str(path), "lines").chunks(3))
        assert [line.text for chunk in chunks for line in chunk] == lines
        assert [line.number for chunk in chunks for line in chunk] == list(range(1, len(lines) + 1))
        assert max(map(len, chunks)) <= 3


def test_long_texts_are_read_a_few_at_a_time(tmp_path):
    """However many texts a chunk may have: some 100 KB of .gz may unpack to 100 MB."""
    (tmp_path / "x.gz").write_bytes(gzip.compress((b"ab " * (1 << 17) + b"\n") * 40))
    sizes = [sum(len(line.text) for line in chunk) for chunk in TextFile(str(tmp_path / "x.gz"), "lines").chunks(8192)]
    assert sum(sizes) == 40 * 3 * (1 << 17) and max(sizes) <= 2 << 20


def test_standard_input_that_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="--text -: standard input is closed: name a file"):
        TextFile("-", "lines")


def test_standard_input_is_read_as_it_comes(monkeypatch):
    """What has come is given before the next line is waited for."""
    reads, writes = os.pipe()
    with os.fdopen(reads, "r") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        chunks = TextFile("-", "lines").chunks(100)
        for sent, found in (
            (b"one\ntwo\n", ["one", "two"]),
            (b"three\n", ["three"]),
            (b"fo", None),
            (b"ur\n", ["four"]),
        ):
            os.write(writes, sent)
            if found is not None:
                assert [line.text for line in next(chunks)] == found
        os.write(writes, b"five\n\n")
        os.close(writes)
        with pytest.raises(InputError, match="standard input line 6: an empty sentence"):
            next(chunks)
