"""GloVe means against the released text processing written out as loops, its golden numbers, and files of vectors."""

import gzip
import hashlib
import io
import json
import shutil
import string
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from preprocess.glove import read_vectors
from preprocess.indexed import IndexedWriter
from tests.preprocess.commands import make_folder, run

SHARED = Path(__file__).parents[3] / "shared"
GOLDEN = SHARED / "golden" / "m-phm-glove__pos0__pair.json"
VECTORS = {
    **{"isnt": [0.5, -1.25, 2.0], "good": [1.0, 0.25, -0.125], "café": [-0.75, 3.5, 0.0625]},
    **{"a": [0.1, 0.2, 0.3], "1000": [4.0, 5.0, 6.0], "unused": [9.0, 9.0, 9.0]},
}
TRAIN = [
    ("This isn't GOOD, is it?", "a Café costs $1,000"),
    ("good good 'good' -- ...", ""),
    ("", "!!! ???"),
    ("\x85 unheard-of   words\u2003only", "x"),
    ("", ""),
    ("A" * 50, "a.a a"),
]
VALID = [("nothing known", "here"), ("or here", "either")]
GLOVE = "".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in VECTORS.items()).encode()


@pytest.fixture
def data(commands):
    splits = {split: [(*pair, "1") for pair in pairs] for split, pairs in (("train", TRAIN), ("valid", VALID))}
    return make_folder(commands.raw, "task", splits, "--vocab", commands.vocab)


@pytest.fixture
def vectors(commands):
    return commands.write("glove.tiny.3d.txt", GLOVE)


def glove(vectors, *folders, options=()):
    return run(["glove", "--vectors", vectors, "--data", *folders, *options])


def released(text, vectors, dim):
    """The released code's way with one text; None where it draws a vector."""
    total, count = np.zeros(dim), 0
    for word in text.split():
        for sign in string.punctuation:
            word = word.replace(sign, "")
        word = word.lower()
        if word in vectors:
            total, count = total + np.array(vectors[word]), count + 1
    return total / count if count else None


def check(folder, split, pairs):
    """Compare the means of a split; return how many of its examples have no known word, and so the fixed draw."""
    means, unknown = np.load(folder / "glove" / f"{split}.npy"), 0
    assert means.dtype == np.float32 and means.shape == (len(pairs), 3)
    for row, pair in zip(means, pairs):
        expected = released(" ".join(pair), VECTORS, 3)
        if expected is None:
            unknown, expected = unknown + 1, np.random.RandomState(0).normal(0, 0.6, 3).astype(np.float32)
        assert np.allclose(row, expected, rtol=1e-6, atol=0)
    return unknown


def test_means_and_their_record(data, vectors, capsys, monkeypatch):
    monkeypatch.setattr("preprocess.glove.BATCH", 2)
    assert glove(vectors, data) == 0
    assert check(data, "train", TRAIN) == 3 and check(data, "valid", VALID) == 2
    printed = capsys.readouterr()
    assert "  train: examples 6, words 19, known words 9, without known words 3" in printed.out
    assert printed.err.startswith("warning: ") and f"{data} valid" in printed.err
    record = json.loads((data / "glove" / "glove.json").read_text())
    assert (record["format"], record["dim"], record["vectors"], record["bpe"]) == (1, 3, vectors.name, "gpt2")
    assert record["sha256"]["input1/train.bin"] == hashlib.sha256((data / "input1/train.bin").read_bytes()).hexdigest()


@pytest.mark.skipif(not GOLDEN.is_file(), reason="golden numbers of the released code are not here")
def test_released_numbers(tmp_path):
    meta, arrays = json.loads(GOLDEN.read_text()), np.load(GOLDEN.with_suffix(".npz"))
    for name in ("encoder.json", "vocab.bpe"):
        shutil.copyfile(SHARED / "data" / "gpt2_bpe" / name, tmp_path / name)
    (tmp_path / "dict.txt").write_text("".join(f"{symbol} 1\n" for symbol in meta["symbols"][4:]))
    pairs = []
    for row in arrays["tokens"].tolist():  # <s> A </s> </s> B </s>, padded
        ends = [at for at, token in enumerate(row) if token == 2]
        pairs.append((row[1 : ends[0] + 1], row[ends[1] + 1 : ends[2] + 1]))
    for number, rows in enumerate(zip(*pairs)):
        part = tmp_path / "golden-bin" / f"input{number}"
        with IndexedWriter(part / "train", 100) as writer:
            writer.write(np.concatenate(rows), np.array([len(row) for row in rows]))
        shutil.copyfile(tmp_path / "dict.txt", part / "dict.txt")
    assert glove(GOLDEN.parent / "glove.tiny.8d.txt", tmp_path / "golden-bin", options=["--vocab", tmp_path]) == 0
    means = np.load(tmp_path / "golden-bin" / "glove" / "train.npy")
    assert np.abs(means - arrays["glove/features"]).max() <= 1e-6


def zipped(*more):
    """The content of an archive of the vectors and of other files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("glove.tiny.3d.txt", GLOVE)
        for name in more:
            archive.writestr(name, b"good 1 2\n")
    return content.getvalue()


def write_package(folder, words=tuple(VECTORS), array=None):
    """A folder of words as parquet and their vectors as an array."""
    rows = np.asfortranarray(np.array(list(VECTORS.values()), np.float32)) if array is None else array
    (folder / "data").mkdir(parents=True)
    np.save(folder / "data" / "emb.npy", rows)
    pyarrow.parquet.write_table(pyarrow.table({"index": list(words)}), folder / "data" / "index.parquet")
    return folder


def write_vectors(path, content):
    """A file of these bytes, a package of these options, or nothing."""
    if isinstance(content, bytes):
        (path.parent if path.parent.suffix == ".zip" else path).write_bytes(content)
    elif content is not None:
        write_package(path, **content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("v.gz", gzip.compress(GLOVE, mtime=0)),
        ("v.zip", zipped()),
        ("v.zip/glove.tiny.3d.txt", zipped("glove.tiny.2d.txt")),
        ("windows.txt", b"\xef\xbb\xbf" + GLOVE.replace(b"\n", b"\r\n")),
        ("package", {}),
    ],
)
def test_formats(name, content, data, tmp_path):
    assert glove(write_vectors(tmp_path / name, content), data) == 0
    check(data, "train", TRAIN)


def test_the_first_row_of_a_word_counts_and_words_with_spaces_are_passed_over(tmp_path):
    """Also in a file of kilobytes that says a long word many times, or where a row has none ("null" read as such)."""
    words = [None, *(["a" * 100_000] * 200), "good", "good"]
    array = np.arange(2.0 * len(words), dtype=np.float32).reshape(-1, 2)
    vectors, known = read_vectors(write_package(tmp_path / "package", words, array), ["good", "bad"])
    assert vectors.tolist() == [[402, 403], [0, 0]] and known.tolist() == [True, False]
    (tmp_path / "v.txt").write_bytes(b"a 1 2\nof a@b.c 3 4\n. . . 5 6\nof 7 8\n")
    vectors, known = read_vectors(tmp_path / "v.txt", ["of", ".", "a"])
    assert vectors.tolist() == [[7, 8], [0, 0], [1, 2]] and known.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("v.txt", None, "v.txt"),
        ("v.txt", b"x 1 2\ngood 1 2 3\n", "line 2 is"),
        ("v.txt", b"x 1 2\ngood 1 nan\n", "line 2 is"),
        ("v.txt", b"x 1 2\nsp " + b"q " * 32767 + b"good 1 2\n", "line 2 is"),  # 64 KiB, then what looks like a line
        ("v.gz", gzip.compress(b"x" + b" 1" * (1 << 20), mtime=0), "line 1 is"),
        ("v.zip", zipped("glove.tiny.2d.txt"), "glove.tiny.3d.txt, glove.tiny.2d.txt"),
        ("package", {"words": ["good"]}, "package"),
        ("package", {"array": np.full((len(VECTORS), 3), np.inf)}, "package"),
    ],
)
def test_bad_vectors(name, content, named, data, tmp_path, capsys):
    assert glove(write_vectors(tmp_path / name, content), data) == 1
    error = capsys.readouterr().err
    assert name.split("/")[0] in error and named in error and error.count("\n") == 1, error
    assert not (data / "glove").exists()


def test_a_folder_that_does_not_say_its_encoder_or_whose_encoder_has_changed(data, vectors, commands):
    (commands.vocab / "vocab.bpe").write_text("#version: 0.2\n#version: 0\n")
    assert glove(vectors, data) == 1
    (commands.vocab / "vocab.bpe").write_text("#version: 0.2\n")
    for name in ("preprocess.json", "sha256.txt"):
        (data / name).unlink()
    assert glove(vectors, data) == 1 and glove(vectors, data, options=["--vocab", commands.vocab]) == 0
    check(data, "train", TRAIN)


def test_existing_folder_is_kept_without_overwrite(data, vectors, tmp_path, capsys):
    """All folders are checked before anything is written."""
    fresh = shutil.copytree(data, tmp_path / "fresh-bin")
    assert glove(vectors, data) == 0
    vectors.write_bytes(b"good 1.0 2.0\n")
    assert glove(vectors, fresh, data) == 1
    assert "--overwrite" in capsys.readouterr().err and not (fresh / "glove").exists()
    assert np.load(data / "glove" / "train.npy").shape == (6, 3)
    assert glove(vectors, data, options=["--overwrite"]) == 0
    assert np.load(data / "glove" / "train.npy").shape == (6, 2)
