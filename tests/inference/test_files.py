"""Files of sentences are read, and predictions written and read back by the readers of their formats."""

import csv
import gzip
import io
import json

import pytest

from fairseq_idpg.errors import InputError
from fairseq_idpg.inference.files import Prediction, TextFile, Writer

READ = {
    ("lines", b"one\r\ntwo\ttabs \n three\n"): ["one", "two\ttabs ", " three"],
    ("lines", "\ufeffone\nohne Ende: ä".encode()): ["one", "ohne Ende: ä"],
    ("tab", b"a b\tc\nd\te f\n"): [("a b", "c"), ("d", "e f")],
    ("jsonl", b'"a\\nb"\n{"sentence": "c", "label": 1}\n'): ["a\nb", "c"],
    ("lines", b"a\nsentence\n"): ["a", "sentence"],
    ("lines", b"one\n \nthree\n"): ["one", "", "three"],
    ("tab", b"\t\na\tb\n"): ["", ("a", "b")],
    ("jsonl", b'["sentence1", "sentence2"]\n'): [("sentence1", "sentence2")],
    ("jsonl", b'["a", "b"]\n{"idx": 0, "sentence2": "d", "sentence1": "c"}\n'): [("a", "b"), ("c", "d")],
}
REFUSED = {  # the number of the line that is named, if any
    ("lines", b"sentence\none\n"): 1,
    ("tab", b"\xef\xbb\xbfsentence1\tsentence2\r\na\tb\n"): 1,
    ("lines", b"one\tgood\ntwo\tbad\n"): 1,
    ("lines", b"one\ntwo \xff\n"): 2,
    ("lines", b"one\nt\0wo\n"): 2,
    ("lines", b"one\rtwo\r"): None,
    ("tab", b"a\tb\nalone\n"): 2,
    ("tab", b"a\t \n"): 1,
    ("jsonl", b'"a"\n{"sentence": \n'): 2,
    ("jsonl", b'{"sentence": 3}\n'): 1,
    ("jsonl", b'{"sentence": "a", "sentence2": "b"}\n'): 1,
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
def test_layouts(layout, content, tmp_path, monkeypatch):
    (tmp_path / "x").write_bytes(content)
    (tmp_path / "x.gz").write_bytes(gzip.compress(content))
    with open(tmp_path / "x") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        for path in (tmp_path / "x", tmp_path / "x.gz", "-"):
            assert texts_of(path, layout) == READ[layout, content]


@pytest.mark.parametrize("layout, content", REFUSED)
def test_bad_lines_are_named(layout, content, tmp_path, monkeypatch):
    path, number = tmp_path / "x", REFUSED[layout, content]
    path.write_bytes(content)
    with open(path) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        for given, name in ((path, path), ("-", "standard input")):
            with pytest.raises(InputError, match=f"{name} line {number}:? " if number else str(name)):
                texts_of(given, layout)


def test_long_texts_are_read_a_few_at_a_time(tmp_path):
    """However many texts a chunk may have: some 100 KB of .gz may unpack to 100 MB."""
    (tmp_path / "x.gz").write_bytes(gzip.compress((b"ab " * (1 << 17) + b"\n") * 40))
    sizes = [sum(len(line.text) for line in chunk) for chunk in TextFile(str(tmp_path / "x.gz"), "lines").chunks(8192)]
    assert sum(sizes) == 40 * 3 * (1 << 17) and max(sizes) <= 2 << 20


CLASSES = [
    Prediction('say "hi",\tyou\nthere', "1", {"0": 0.25, "1": 0.75}),
    Prediction("über", "0", {"0": 0.9, "1": 0.1}),
]
SCORES = [Prediction(("a", "b, c"), score=3.25), Prediction(("d", "e"), score=-0.0000001)]


def written(form: str, predictions: list[Prediction]) -> str:
    file = io.StringIO()
    writer = Writer(file, form)
    for prediction in predictions:
        writer.write([prediction])
    assert writer.written == len(predictions)
    return file.getvalue()


def test_tables():
    tsv = 'label\tprobability\tsentence\n1\t0.750000\tsay "hi", you there\n0\t0.900000\tüber\n'
    assert written("tsv", CLASSES) == tsv
    assert written("tsv", SCORES) == "score\tsentence1\tsentence2\n3.250000\ta\tb, c\n-0.000000\td\te\n"
    rows = list(csv.DictReader(io.StringIO(written("csv", CLASSES), newline="")))
    assert rows[0] == {"label": "1", "probability": "0.750000", "sentence": CLASSES[0].text}
    assert [row["sentence2"] for row in csv.DictReader(io.StringIO(written("csv", SCORES)))] == ["b, c", "e"]


def test_a_table_on_a_terminal_holds_no_commands():
    """The class is a name of a stranger's checkpoint."""
    for found in (Prediction("a\x9b2J", "\x1b[2J", {"\x1b[2J": 1.0}), Prediction("\x7f", score=1.0)):
        for one in (found, {"\x07": found}):
            assert written("tsv", [one]).replace("\t", " ").replace("\n", " ").isprintable()
    named = {"\x9b": Prediction("text", "\x1b[2J\x9b", {"\x1b[2J\x9b": 1.0})}
    csv_text, json_text = (written(form, [named]) for form in ("csv", "jsonl"))
    assert csv_text.replace("\n", "").isprintable() and json_text[:-1].isprintable()
    assert json.loads(json_text)["tasks"]["\x9b"]["label"] == "\x1b[2J\x9b"


@pytest.mark.parametrize("sign", ["\r", "\r\n", "\n", "\t", ",", '"', "\u2028"])
def test_a_sentence_with_any_sign_is_one_row(sign):
    text = f"one{sign}two"
    found = [{text: Prediction((text, "three"), "a", {"a": 1.0})}]  # also in a task's name
    _, row = csv.reader(io.StringIO(written("csv", found), newline=""))
    assert row[2:] == [text, "three"]
    header, row, _ = written("tsv", found).split("\n")
    assert header.count("\t") == row.count("\t") == 3


def test_that_a_text_was_cut_is_no_column():
    """The first row names the columns, and it may have been read to its end."""
    cut = {"t": Prediction("a b", "1", {"0": 0.25, "1": 0.75}, cut=True)}
    assert json.loads(written("jsonl", [cut]))["tasks"]["t"]["cut"] is True
    assert written("tsv", [cut]).split("\n")[0] == "t.label\tt.probability\tsentence"
