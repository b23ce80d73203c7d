"""Models of EFL give the classes of sentences."""

from __future__ import annotations

import pytest

from fairseq_idpg import load
from preprocess.splits import EFL_DESCRIPTIONS
from tests.inference.conftest import texts
from tests.inference.saved import write_checkpoint
from tests.preprocess.commands import run as preprocess

LABELS = ["not_entailment", "entailment"]


@pytest.fixture(scope="module")
def data(place):
    """Entailment pairs made of sentences."""
    raw = place / "raw" / "SST-2"
    raw.mkdir(parents=True)
    for seed, file in enumerate(("train.tsv", "dev.tsv")):
        lines = (f"{text}\t{number % 2}\n" for number, (text,) in enumerate(texts(16, 1, seed)))
        (raw / file).write_text("sentence\tlabel\n" + "".join(lines))
    command = ["SST-2", "--raw", raw.parent, "--efl", "--vocab", place / "vocab", "--out", place / "efl"]
    assert preprocess([str(part) for part in command]) == 0
    return place / "efl" / "SST-2-bin"


def test_a_sentence_has_the_class_that_its_description_has(place, data):
    path = write_checkpoint(place / "efl.pt", data, place / "backbone" / "model.pt", "--method", "efl")
    model, sentences = load(path, "cpu"), [text for (text,) in texts(16, 1, 1)]
    classes = model.predict(sentences)
    pairs = model.predict([(text, EFL_DESCRIPTIONS["SST-2"]["1"]) for text in sentences])
    for of_class, of_pair in zip(classes, pairs):
        assert set(of_pair.probabilities) == set(LABELS) and set(of_class.probabilities) == {"0", "1"}
        assert of_class.probabilities["1"] == pytest.approx(of_pair.probabilities["entailment"], abs=1e-6)
        assert of_class.label == ("1" if of_pair.label == "entailment" else "0")
        assert isinstance(of_class.text, str)


def test_sentences_among_several_tasks(place, data, folders):
    """One list of sentences: a task of entailment pairs gives their classes, one of sentences its own."""
    folders, backbone = {"described": data, "plain": folders["singles"]}, place / "backbone" / "model.pt"
    idpg = ["--method", "m-idpg-phm", "--phm-n", 4]  # with M(x) of other tokens
    paths = {name: write_checkpoint(place / f"{name}.pt", folder, backbone, *idpg) for name, folder in folders.items()}
    sentences = [text for (text,) in texts(8, 1, 1)]
    found = load(paths, device="cpu").predict(sentences, batch_size=5)
    for name, path in paths.items():
        for together, alone in zip(found, load(path, device="cpu").predict(sentences)):
            assert together[name].label == alone.label
            assert together[name].probabilities == pytest.approx(alone.probabilities, abs=1e-6)
    assert set(found[0]["described"].probabilities) == {"0", "1"}
