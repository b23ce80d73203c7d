"""Small folders and vectors for the tests of GloVe means, and the released text processing as loops."""

import shutil
import string
from pathlib import Path

import numpy as np
import pytest

from preprocess.encoders import load_encoder
from preprocess.indexed import IndexedWriter
from tests.preprocess.commands import run, write_vocab

SHARED = Path(__file__).parents[3] / "shared"
GOLDEN = SHARED / "golden" / "m-phm-glove__pos0__pair.json"
VECTORS = {
    "isnt": [0.5, -1.25, 2.0],
    "good": [1.0, 0.25, -0.125],
    "café": [-0.75, 3.5, 0.0625],
    "a": [0.1, 0.2, 0.3],
    "1000": [4.0, 5.0, 6.0],
    "unused": [9.0, 9.0, 9.0],
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


@pytest.fixture(scope="session")
def vocab(tmp_path_factory):
    return write_vocab(tmp_path_factory.mktemp("vocab"))


def write_data(folder, vocab, **splits):
    """A folder of pairs, or of single sentences: {split: texts}."""
    encoder = load_encoder("gpt2", vocab)
    for split, examples in splits.items():
        columns = [examples] if isinstance(examples[0], str) else list(zip(*examples))
        for number, texts in enumerate(columns):
            part = folder / f"input{number}"
            with IndexedWriter(part / split, len(encoder.symbols)) as writer:
                writer.write(*encoder.encode(texts))
            shutil.copyfile(vocab / "dict.txt", part / "dict.txt")
    return folder


@pytest.fixture
def data(tmp_path, vocab):
    return write_data(tmp_path / "task-bin", vocab, train=TRAIN, valid=VALID)


def glove_text(vectors=VECTORS):
    return "".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in vectors.items()).encode()


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / "glove.tiny.3d.txt"
    path.write_bytes(glove_text())
    return path


def glove(vectors, vocab, *folders, options=()):
    given = ["--vocab", str(vocab)] if vocab else []
    return run(["glove", "--vectors", str(vectors), "--data", *map(str, folders), *given, *options])


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


def fixed_draw(dim):
    return np.random.RandomState(0).normal(0, 0.6, dim).astype(np.float32)


def check(folder, split, examples):
    means = np.load(folder / "glove" / f"{split}.npy")
    assert means.dtype == np.float32 and means.shape == (len(examples), 3)
    unknown = 0
    for row, example in zip(means, examples):
        expected = released(example if isinstance(example, str) else " ".join(example), VECTORS, 3)
        unknown += expected is None
        assert np.allclose(row, fixed_draw(3) if expected is None else expected, rtol=1e-6, atol=0)
    return unknown


# --- the means -----------------------------------------------------------------------------------
