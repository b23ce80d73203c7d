"""Files of sentences: every line is read or refused by its number."""

from __future__ import annotations

import gzip
import json
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.errors import InputError
from fairseq_idpg.inference.files import TextFile, of_json

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
REFUSED = {  # the number of the line that is named, if any
    ("lines", b"one\n\nthree\n"): 2,
    ("lines", b"one\n \t\n"): 2,
    ("lines", b"sentence\none\n"): 1,
    ("tab", b"\xef\xbb\xbfsentence1\tsentence2\r\na\tb\n"): 1,
    ("tab", b"a\tb\n\xef\xbb\xbfSentence1\tSentence2\nc\td\n"): 2,
    ("lines", b"one\tgood\ntwo\tbad\n"): 1,
    ("lines", b"one\ntwo \xff\n"): 2,
    ("lines", b"one\nt\0wo\n"): 2,
    ("lines", b"one\rtwo\r"): None,
    ("tab", b"a\tb\nalone\n"): 2,
    ("tab", b"a\tb\tc\n"): 1,
    ("tab", b"a\t \n"): 1,
    ("jsonl", b'"a"\n\n'): 2,
    ("jsonl", b'"a"\n{"sentence": \n'): 2,
    ("jsonl", b'{"sentence": 3}\n'): 1,
    ("jsonl", b'{"text": "a"}\n'): 1,
    ("jsonl", b'{"sentence": "a", "sentence2": "b"}\n'): 1,
    ("jsonl", b'["a"]\n'): 1,
    ("jsonl", b'"a"\n["b", "c"]\n'): 2,
    ("jsonl", b'{"sentence": "a", "sentence": "b"}\n'): 1,
    ("jsonl", b'["a", "\\ud800"]\n'): 1,
    ("jsonl", b"[" * 100_000 + b"\n"): 1,
}


def texts_of(path, layout: str, size: int = 2) -> list:
    return [line.text for chunk in TextFile(str(path), layout).chunks(size) for line in chunk]


@pytest.mark.parametrize("layout, content, number", [
    ("lines", b'"red"\n"he said ""red"""\n"""red"" he said"\n', 2),
    ("tab", b'"a, b"\t"c"\nd\t"say ""e"""\n', 2),
    ("lines", b'"red", he said, "cat"\n"red"\n', None),
    ("jsonl", b'"\\"say \\"\\"e\\"\\"\\""\n', None),
])  # fmt: skip
def test_a_text_that_looks_quoted_as_in_csv_is_told_of(layout, content, number, tmp_path, caplog):
    """Its quotes are read as its own, which they seldom are: once, for the first."""
    (tmp_path / "x").write_bytes(content)
    texts_of(tmp_path / "x", layout)
    found = [message for message in caplog.messages if message.startswith(f"{tmp_path / 'x'} line {number} ")]
    assert len(found) == len(caplog.messages) == (number is not None)


@pytest.mark.parametrize("layout, content", READ)
def test_layouts(layout, content, tmp_path):
    (tmp_path / "x").write_bytes(content)
    (tmp_path / "x.gz").write_bytes(gzip.compress(content))
    assert texts_of(tmp_path / "x", layout) == texts_of(tmp_path / "x.gz", layout) == READ[layout, content]


@pytest.mark.parametrize("layout, content", REFUSED)
def test_bad_lines_are_named(layout, content, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(content)
    number = REFUSED[layout, content]
    with pytest.raises(InputError, match=f"{path} line {number}:? " if number else str(path)):
        texts_of(path, layout)


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
        with pytest.raises(InputError, match="standard input line 6"):
            next(chunks)
