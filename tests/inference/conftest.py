"""Sentences, pairs with classes and pairs with scores, made by preprocess; a backbone; what is trained on them."""

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from fairseq_idpg.export import export
from tests.folders import changed, train, write_backbone
from tests.preprocess import commands
from tests.preprocess.commands import run as preprocess
from tests.preprocess.commands import write_vocab

BYTES = 256  # symbols of the small GPT-2 vocabulary
REGRESSION = ["--regression-target", "--num-classes", 1, "--best-checkpoint-metric", "loss"]
WORDS = "red blue cat dog sat ran fast far".split()
KINDS = {"singles": 1, "pairs": 2, "scores": 2}
LABELS = ["good", "bad"]


def vocab_and_backbone(folder: Path) -> Path:
    """The folder, with vocab/ and backbone/model.pt."""
    write_vocab(folder / "vocab")
    enlarge(write_backbone(folder / "backbone" / "model.pt", words=BYTES))
    return folder


def enlarge(backbone: Path, factor: float = 10) -> None:
    """Larger matrices: as they are drawn, the states of all sentences are nearly the same."""
    changed(backbone, lambda state: [value.mul_(factor) for value in state["model"].values() if value.dim() > 1])


def texts(count: int, parts: int, seed: int) -> list[tuple[str, ...]]:
    draw = random.Random(seed)
    return [tuple(" ".join(draw.choices(WORDS, k=draw.randint(1, 4))) for _ in range(parts)) for _ in range(count)]


def inputs(kind: str) -> list:
    """The texts of the validation split, as ``predict`` takes them."""
    return [parts if len(parts) == 2 else parts[0] for parts in texts(16, KINDS[kind], seed=1)]


def make_folder(place: Path, kind: str, *options: object) -> Path:
    """Of texts with labels, or with scores from 0 to 5."""

    def label(number: int, text: str) -> str:
        return str(number % 5) if kind == "scores" else LABELS["red" in text]

    splits = {
        split: [(*parts, label(number, parts[0])) for number, parts in enumerate(texts(16, KINDS[kind], seed))]
        for seed, split in enumerate(("train", "valid"))
    }
    scores = ["--regression", "5"] if kind == "scores" else []
    return commands.make_folder(place, kind, splits, *scores, "--vocab", place / "vocab", *options)


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    return vocab_and_backbone(tmp_path_factory.mktemp("inference"))


@pytest.fixture(scope="session")
def folders(place):
    return {kind: make_folder(place, kind) for kind in KINDS}


@pytest.fixture(scope="session")
def trained(place, folders):
    """(kind, more options) -> checkpoint of a few large steps."""

    def run(kind: str, name: str, *options: object, **more) -> Path:
        save = place / f"{kind}-{name}"
        if not (save / "checkpoint_last.pt").exists():
            usual = ["--max-epoch", 1, "--lr", 0.02, *(REGRESSION if kind == "scores" else [])]
            backbone = ["--backbone", place / "backbone" / "model.pt"]
            train(folders[kind], save, *usual, *backbone, "--method", name, *options, **more)
        return save / "checkpoint_last.pt"

    return run


@pytest.fixture(scope="session")
def idpg(trained):
    return lambda kind: trained(kind, "m-idpg-phm", "--prompt-length", 3)


@pytest.fixture(scope="session")
def vectors(place, folders):
    """Word vectors of all words but one; the means of the pairs are made from them."""
    draw = np.random.RandomState(0)
    path = place / "vectors.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, draw.normal(size=8)))}\n" for word in WORDS[:-1]))
    assert preprocess(["glove", "--vectors", str(path), "--data", str(folders["pairs"])]) == 0
    return path


@pytest.fixture(scope="session")
def shared_folder(idpg, tmp_path_factory):
    """A folder to share, of pairs."""
    folder = tmp_path_factory.mktemp("made") / "my prompt"
    export(str(idpg("pairs")), str(folder))
    return folder


@pytest.fixture
def shared_copy(shared_folder, tmp_path):
    """One that may be damaged."""
    return shutil.copytree(shared_folder, tmp_path / "copy")
