"""GloVe means against the released text processing written out as loops, and its golden numbers."""

import hashlib
import json
import shutil
import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preprocess.data_folder import DataFolder
from preprocess.indexed import IndexedWriter
from preprocess.words import text_words, token_lists
from tests.preprocess.commands import run, write_vocab
from tests.preprocess.glove_data import GOLDEN, SHARED, TRAIN, VALID, check, glove, glove_text, write_data


def test_pairs(data, vectors, vocab, capsys):
    assert glove(vectors, vocab, data) == 0
    assert check(data, "train", TRAIN) == 3
    assert check(data, "valid", VALID) == 2
    printed = capsys.readouterr()
    assert "  train: examples 6, words 19, known words 9, without known words 3" in printed.out
    assert printed.err == f"warning: no word of {data} valid has a vector in {vectors}\n"
    record = json.loads((data / "glove" / "glove.json").read_text())
    assert record["splits"]["train"] == {"examples": 6, "words": 19, "known_words": 9, "without_known_words": 3}
    assert (record["format"], record["dim"], record["vectors"], record["bpe"]) == (1, 3, vectors.name, "gpt2")
    assert record["vectors_sha256"] == {vectors.name: hashlib.sha256(vectors.read_bytes()).hexdigest()}
    for name in ("input0/train.bin", "input1/train.bin", "input0/valid.bin", "input1/valid.bin"):
        assert record["sha256"][name] == hashlib.sha256((data / name).read_bytes()).hexdigest()


def test_examples_without_known_words_are_the_same_in_every_run(data, vectors, vocab, tmp_path):
    again = shutil.copytree(data, tmp_path / "again-bin")
    assert glove(vectors, vocab, data, again) == 0
    means = np.load(data / "glove" / "valid.npy")
    assert np.allclose(means[0], [1.0584314, 0.24009433, 0.5872428], rtol=1e-6)
    assert np.array_equal(means[0], means[1])
    for split in ("train", "valid"):
        assert (data / "glove" / f"{split}.npy").read_bytes() == (again / "glove" / f"{split}.npy").read_bytes()


PIECES = [
    "good",
    "Good.",
    "isn't",
    "café",
    "CAFÉ",
    "a",
    "...",
    "'",
    " ",
    "\u2003",
    "\x85",
    "\x1c",
    "1,000",
    "b",
    "ΑΣ'",
    "İ",
]


@settings(max_examples=40)
@given(st.lists(st.lists(st.sampled_from(PIECES)).map("".join), min_size=1, max_size=5))
def test_any_text(vocab, tmp_path_factory, texts):
    folder = write_data(tmp_path_factory.mktemp("any") / "any-bin", vocab, train=texts)
    (folder / "v.txt").write_bytes(glove_text())
    assert glove(folder / "v.txt", vocab, folder) == 0
    check(folder, "train", texts)


@settings(max_examples=200)
@given(st.text() | st.lists(st.sampled_from([*PIECES, "Σ", "σ", "ß"])).map("".join))
def test_words_are_the_released_ones(text):
    words = []
    for word in text.split():
        for sign in string.punctuation:
            word = word.replace(sign, "")
        if word.lower():
            words.append(word.lower())
    assert text_words(text) == words


def test_rows_are_decoded_without_their_end(data):
    rows = DataFolder(data).rows("input1", "train")
    assert token_lists(rows, 3) == [rows[3][:-1].tolist(), [], rows[5][:-1].tolist()]


def test_more_examples_than_a_batch(vocab, tmp_path, monkeypatch):
    texts = [f"good {'a ' * (i % 5)}" for i in range(23)]
    monkeypatch.setattr("preprocess.words.BATCH", 5)
    monkeypatch.setattr("preprocess.glove.BATCH", 4)
    folder = write_data(tmp_path / "many-bin", vocab, train=texts)
    (tmp_path / "v.txt").write_bytes(glove_text())
    assert glove(tmp_path / "v.txt", vocab, folder) == 0
    assert check(folder, "train", texts) == 0


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
    assert glove(GOLDEN.parent / "glove.tiny.8d.txt", tmp_path, tmp_path / "golden-bin") == 0
    means = np.load(tmp_path / "golden-bin" / "glove" / "train.npy")
    assert np.abs(means - arrays["glove/features"]).max() <= 1e-6


# --- formats of the vectors ----------------------------------------------------------------------


def test_encoder_that_the_folder_records(data, vectors, vocab):
    (data / "preprocess.json").write_text(json.dumps({"bpe": "gpt2", "vocab": str(vocab)}))
    assert glove(vectors, None, data) == 0
    check(data, "train", TRAIN)


@pytest.mark.parametrize(
    "record, message",
    [
        (None, "task-bin does not say how it was encoded: name the folder of its encoder with --vocab"),
        ("{", "task-bin/preprocess.json is damaged"),
        ("[]", "task-bin/preprocess.json is damaged"),
        ('{"bpe": "x", "vocab": "y"}', "preprocess.json: unknown bpe 'x': name one of gpt2, bert"),
    ],
)
def test_bad_record(data, vectors, capsys, record, message):
    if record is not None:
        (data / "preprocess.json").write_text(record)
    assert glove(vectors, None, data) == 1
    assert message in capsys.readouterr().err


def test_other_vocabulary(data, vectors, vocab, tmp_path, capsys):
    other = shutil.copytree(vocab, tmp_path / "other")
    lines = (other / "dict.txt").read_text().splitlines(keepends=True)
    (other / "dict.txt").write_text("".join(reversed(lines)))
    assert glove(vectors, other, data) == 1
    assert f"{data}/input0/dict.txt differs from {other}/dict.txt: name with --bpe" in capsys.readouterr().err


# --- what is refused -----------------------------------------------------------------------------


def test_no_binarized_folder(data, vectors, vocab, tmp_path, capsys):
    assert glove(vectors, vocab, data, tmp_path / "nowhere") == 1
    assert "nowhere is not a binarized folder" in capsys.readouterr().err
    assert not (data / "glove").exists()


def test_existing_folder_is_kept_without_overwrite(data, vectors, vocab, tmp_path, capsys):
    fresh = shutil.copytree(data, tmp_path / "fresh-bin")
    assert glove(vectors, vocab, data) == 0
    before = {path.name: path.read_bytes() for path in (data / "glove").iterdir()}
    vectors.write_bytes(glove_text({"good": [1.0, 2.0]}))
    assert glove(vectors, vocab, fresh, data) == 1
    assert "glove exists already: remove it, or give --overwrite" in capsys.readouterr().err
    assert not (fresh / "glove").exists()
    assert before == {path.name: path.read_bytes() for path in (data / "glove").iterdir()}
    assert glove(vectors, vocab, data, options=["--overwrite"]) == 0
    assert np.load(data / "glove" / "train.npy").shape == (6, 2)


def test_vectors_that_lie_where_they_would_be_replaced(data, vectors, vocab, capsys):
    (data / "glove").mkdir()
    own = vectors.rename(data / "glove" / "vectors.txt")
    assert glove(own, vocab, data, options=["--overwrite"]) == 1
    assert f"{data / 'glove'} is there already, and vectors.txt in it would be lost" in capsys.readouterr().err
    assert own.exists()


def test_failure_while_writing_leaves_the_old_folder(data, vectors, vocab, monkeypatch):
    assert glove(vectors, vocab, data) == 0
    before = (data / "glove" / "train.npy").read_bytes()

    def fail(*_):
        raise OSError("disk")

    monkeypatch.setattr("preprocess.glove.token_digests", fail)
    assert glove(vectors, vocab, data, options=["--overwrite"]) == 1
    assert (data / "glove" / "train.npy").read_bytes() == before
    assert sorted(path.name for path in data.iterdir()) == ["glove", "input0", "input1"]
    assert DataFolder(data).splits == ["train", "valid"]


def test_a_vocabulary_that_has_changed(tmp_path, vectors, capsys):
    """Its dict.txt is the same, and the pieces are not."""
    vocab = write_vocab(tmp_path / "own-vocab")
    (tmp_path / "x.tsv").write_text("t\tlabel\ngood\t1\na café\t0\n")
    options = ["--text-columns", "t", "--vocab", str(vocab), "--out", str(tmp_path)]
    assert run(["x", "--from-tsv", f"train={tmp_path / 'x.tsv'}", *options]) == 0
    assert glove(vectors, None, tmp_path / "x-bin") == 0
    (vocab / "vocab.bpe").write_text("#version: 0.3\n", encoding="utf-8")
    assert glove(vectors, None, tmp_path / "x-bin", options=["--overwrite"]) == 1
    assert f"{vocab}/encoder.json is not what {tmp_path}/x-bin was made with" in capsys.readouterr().err
