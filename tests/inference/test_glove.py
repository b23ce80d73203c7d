"""Word vectors of texts that nobody has preprocessed."""

import shutil
import sys

import numpy as np
import pytest
import torch

from fairseq_idpg import load
from fairseq_idpg.errors import InputError, ModelFault, ModelLost
from fairseq_idpg.inference.folder import load_on_folder
from tests.inference.saved import write_checkpoint
from tests.preprocess.commands import run as preprocess

GLOVE = ["--method", "m-idpg-phm-glove", "--phm-n", 4, "--generator-hidden-size", 8]


@pytest.fixture(scope="module")
def checkpoint(place, folders, vectors):
    return write_checkpoint(place / "glove.pt", folders["pairs"], place / "backbone" / "model.pt", *GLOVE)


def test_new_words_are_looked_up_when_they_come(checkpoint, vectors):
    texts = [("red cat", "dog"), ("Blue, cat!", "unheard of"), ("nothing", "known"), ("red", "fast fast")]
    once, anew = (load(checkpoint, device="cpu", vectors=vectors) for _ in range(2))
    together = [p.probabilities for p in once.predict(texts)]
    alone = [anew.predict([text])[0].probabilities for text in texts]
    for one, other in zip(together, alone):
        assert one == pytest.approx(other, abs=1e-6)
    rows = anew.means.rows([anew.text.encode(part) for part in zip(*texts)])
    values = {line.split()[0]: np.array(line.split()[1:], float) for line in vectors.read_text().splitlines()}
    assert rows[1].numpy() == pytest.approx((values["blue"] + values["cat"]) / 2, abs=1e-6)  # of the words that it has
    assert rows[2].numpy() == pytest.approx(np.random.RandomState(0).normal(0, 0.6, 8), abs=1e-6)


def test_words_are_forgotten_when_there_are_many(checkpoint, vectors, monkeypatch):
    """A server meets new words as long as it runs."""
    bounded, free = (load(checkpoint, device="cpu", vectors=vectors) for _ in range(2))
    module = sys.modules[type(bounded.means).__module__]
    for pair in [("red", "cat"), ("blue fast", "dog"), ("red red", "cat blue dog fast"), ("red", "cat unheard")]:
        ids = [bounded.text.encode([part]) for part in pair]
        monkeypatch.setattr(module, "MOST_WORDS", 3)
        rows = bounded.means.rows(ids)
        assert set(bounded.means.numbers) >= set(" ".join(pair).split())
        assert len(bounded.means.numbers) == len(bounded.means.vectors) <= max(3, len(set(" ".join(pair).split())))
        monkeypatch.setattr(module, "MOST_WORDS", 1000)
        assert torch.equal(rows, free.means.rows(ids))


def test_vectors_that_others_take_the_place_of_give_no_answer(checkpoint, vectors, tmp_path):
    """Words are looked up as they come: later ones would get vectors that the model was not trained on."""
    own = tmp_path / "vectors.txt"
    shutil.copy(vectors, own)
    predictor = load(checkpoint, device="cpu", vectors=own)
    predictor.predict([("red", "cat")])
    other = tmp_path / "other.txt"
    other.write_text(vectors.read_text().replace("dog", "Dog").replace("blue", "dog"))
    other.replace(own)
    predictor.predict([("cat", "red")])  # words that it has met
    with pytest.raises(ModelLost, match="vectors.txt"):
        predictor.predict([("red", "dog")])
    own.unlink()
    with pytest.raises(ModelFault, match="vectors.txt"):  # which a server does not blame its clients for
        predictor.predict([("red", "dog")])


def test_other_vectors_are_refused(checkpoint, place, folders, vectors, tmp_path):
    """Also those of a folder, which are of the same width and say something else."""
    other, folder = tmp_path / "others.txt", tmp_path / "pairs-bin"
    other.write_text(vectors.read_text().replace("red", "cat", 1))
    for given in ({}, {"vectors": other}, {"vectors": "nowhere.txt"}):
        with pytest.raises(InputError, match="vectors"):
            load(checkpoint, device="cpu", **given)
    shutil.copytree(folders["pairs"], folder, ignore=shutil.ignore_patterns("glove"))
    assert preprocess(["glove", "--vectors", str(other), "--data", str(folder)]) == 0
    with pytest.raises(InputError, match="others.txt"):
        load_on_folder(str(checkpoint), str(folder), cpu=True)
    plain = write_checkpoint(tmp_path / "plain.pt", folders["pairs"], place / "backbone" / "model.pt")
    load_on_folder(str(plain), str(folder), cpu=True)  # reads none of them
