"""Every format that word vectors come in, and every way in which they can be broken."""

import gzip
import sys
import zipfile

import numpy as np
import pytest

from preprocess.vector_files import read_vectors
from tests.preprocess.glove_data import TRAIN, VECTORS, check, glove, glove_text


def as_gz(folder):
    with gzip.open(folder / "glove.tiny.3d.txt.gz", "wb") as file:
        file.write(glove_text())
    return folder / "glove.tiny.3d.txt.gz"


def as_zip(folder, *more):
    with zipfile.ZipFile(folder / "glove.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("glove.tiny.3d.txt", glove_text())
        for name in more:
            archive.writestr(name, b"good 1 2\n")
    return folder / "glove.zip"


def as_zip_member(folder):
    return as_zip(folder, "glove.tiny.2d.txt") / "glove.tiny.3d.txt"


def as_windows_text(folder):
    (folder / "v.txt").write_bytes(b"\xef\xbb\xbf" + glove_text().replace(b"\n", b"\r\n"))
    return folder / "v.txt"


def as_array(folder, words=tuple(VECTORS), array=None, column="index"):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    inner = folder / "package" / "data"
    inner.mkdir(parents=True)
    rows = np.asfortranarray(np.array(list(VECTORS.values()), np.float32)) if array is None else array
    np.save(inner / "emb.npy", rows)
    parquet.write_table(pyarrow.table({column: list(words)}), inner / "index.parquet")
    return folder / "package"


@pytest.mark.parametrize("make", [as_gz, as_zip, as_zip_member, as_windows_text, as_array])
def test_formats(data, vocab, tmp_path, make):
    assert glove(make(tmp_path), vocab, data) == 0
    check(data, "train", TRAIN)


# --- where the encoder comes from ----------------------------------------------------------------


def text(content):
    def make(folder):
        (folder / "v.txt").write_bytes(content)
        return folder / "v.txt"

    return make


def several_in_zip(folder):
    return as_zip(folder, "glove.tiny.2d.txt")


def no_such_member(folder):
    return as_zip(folder) / "other.txt"


def empty_folder(folder):
    (folder / "empty").mkdir()
    return folder / "empty"


def broken(suffix):
    def make(folder):
        (folder / f"v{suffix}").write_bytes(b"\x1f\x8b no archive")
        return folder / f"v{suffix}"

    return make


def cut_gz(folder):
    path = as_gz(folder)
    path.write_bytes(path.read_bytes()[:-12])
    return path


def endless_gz(folder):
    (folder / "v.gz").write_bytes(gzip.compress(b"x" + b" 1" * (1 << 20)))
    return folder / "v.gz"


def fewer_words(folder):
    return as_array(folder, words=["good"])


def numbers_as_words(folder):
    return as_array(folder, words=[1] * len(VECTORS))


def flat_array(folder):
    return as_array(folder, array=np.zeros(len(VECTORS)))


def broken_array(folder):
    path = as_array(folder)
    (path / "data" / "emb.npy").write_bytes(b"no array")
    return path


def infinite_array(folder):
    return as_array(folder, array=np.full((len(VECTORS), 3), np.inf))


def test_words_with_spaces_are_passed_over(tmp_path):
    path = text(b"a 1 2\nof a@b.c 3 4\n. . . 5 6\nof 7 8\n")(tmp_path)
    vectors, known = read_vectors(path, ["of", ".", "a"])
    assert vectors.tolist() == [[7, 8], [0, 0], [1, 2]] and known.tolist() == [True, False, True]


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda folder: folder / "none.txt", "none.txt does not exist: name a GloVe file such as glove.6B.300d.txt"),
        (text(b""), "v.txt is empty"),
        (text(b"good\n"), "v.txt line 1 has 0 numbers: a GloVe file has"),
        (text(b"x 1 2\ngood 1 2 3\n"), "v.txt line 2 has 3 numbers, line 1 has 2: a GloVe file has"),
        (text(b"x 1 2\n\ngood 1 2\n"), "v.txt line 2 has 0 numbers, line 1 has 2"),
        (text(b"x 1 2\ny  1 2\n"), "v.txt line 2 has 3 numbers, line 1 has 2"),
        (text(b"x 1 2\ngood 1 2y 3 4\n"), "v.txt line 2 has 4 numbers, line 1 has 2"),
        (text(b"x 1 2\ngood 1 two\n"), "v.txt line 2: could not convert string to float: b'two': a GloVe file has"),
        (text(b"word vectors here\n"), "v.txt line 1: could not convert string to float: b'vectors'"),
        (text(b"good 1 nan\n"), "v.txt line 1 has a number that is not finite"),
        (several_in_zip, "holds glove.tiny.3d.txt, glove.tiny.2d.txt: name one of them as"),
        (no_such_member, "glove.zip holds glove.tiny.3d.txt: name one of them as"),
        (empty_folder, "empty has 0 .npy and 0 .parquet files, not one of each"),
        (text(b"x 1 2\ngood 1" + b"0" * (1 << 16)), "v.txt line 2 has more than 65,536 bytes"),
        (endless_gz, "v.gz line 1 has more than 65,536 bytes"),
        (broken(".zip"), "v.zip cannot be read (File is not a zip file): fetch it again"),
        (broken(".gz"), "v.gz cannot be read ("),
        (cut_gz, "glove.tiny.3d.txt.gz cannot be read ("),
        (fewer_words, "index.parquet has 1 words, not one word for each of the 6 rows of emb.npy"),
        (numbers_as_words, "index.parquet has 0 columns of words, not one word for each of the 6 rows"),
        (lambda folder: as_array(folder, ["a" * 100_000] * 6), "index.parquet has words of over 1024 bytes"),
        (flat_array, "emb.npy is float64 of shape (6,), not words x dimension of numbers"),
        (broken_array, "data cannot be read ("),
        (infinite_array, "emb.npy has a number that is not finite"),
    ],
)
def test_bad_vectors(data, vocab, tmp_path, capsys, make, message):
    assert glove(make(tmp_path), vocab, data) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1, error
    assert sorted(path.name for path in data.iterdir()) == ["input0", "input1"]


def test_missing_pyarrow(data, vocab, tmp_path, capsys, monkeypatch):
    source = as_array(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert glove(source, vocab, data) == 1
    assert "index.parquet needs pyarrow: pip install pyarrow, or name a GloVe text file" in capsys.readouterr().err
