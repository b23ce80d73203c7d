"""Sentence pairs with scores, made by preprocess; models trained on them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from tests.folders import train, write_backbone
from tests.preprocess.commands import run as preprocess
from tests.preprocess.commands import write_vocab

BYTES = 256  # symbols of the small GPT-2 vocabulary
REGRESSION = ["--regression-target", "--num-classes", 1, "--best-checkpoint-metric", "loss"]
WORDS = "red blue cat dog sat ran fast far".split()
PAIRS = 16


def write_pairs(path: Path, seed: int) -> Path:
    """Text pairs of different lengths with scores from 0 to 5, as in STS-B."""
    draw = random.Random(seed)
    lines = []
    for i in range(PAIRS):
        both = [" ".join(draw.choices(WORDS, k=draw.randint(1, 4))) for _ in range(2)]
        lines.append("\t".join([*both, str(i / 3)]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    return vocab_and_backbone(tmp_path_factory.mktemp("analysis"))


def vocab_and_backbone(folder: Path) -> Path:
    """The folder, with vocab/ and backbone/model.pt."""
    write_vocab(folder / "vocab")
    enlarge(write_backbone(folder / "backbone" / "model.pt", words=BYTES))
    return folder


def enlarge(backbone: Path, factor: float = 10) -> None:
    """Larger matrices: as they are drawn, the states of all sentences are nearly the same."""
    state = torch.load(backbone, weights_only=True)
    state["model"] = {name: value * factor if value.dim() > 1 else value for name, value in state["model"].items()}
    torch.save(state, backbone)


@pytest.fixture(scope="session")
def pairs(place):
    files = [f"{split}={write_pairs(place / f'{split}.tsv', seed)}" for seed, split in enumerate(("train", "valid"))]
    columns = ["--no-header", "--text-columns", "1", "2", "--label-column", "3", "--regression", "5"]
    command = ["pairs", "--from-tsv", *files, *columns, "--vocab", place / "vocab", "--out", place]
    assert preprocess([str(part) for part in command]) == 0
    return place / "pairs-bin"


@pytest.fixture(scope="session")
def trained(place, pairs):
    """(method, more options) -> checkpoint of a few large steps, after which no row is where it started."""

    def run(name: str, *options: object, **more) -> Path:
        usual = ["--max-epoch", 1, "--lr", 0.02, *REGRESSION]
        train(pairs, place / name, *usual, *options, **more)
        return place / name / "checkpoint_last.pt"

    return run


@pytest.fixture(scope="session")
def idpg(place, trained):
    method = ["--backbone", place / "backbone" / "model.pt", "--method", "m-idpg-phm"]
    return trained("idpg", *method, "--prompt-position", 3, "--prompt-length", 3)


@pytest.fixture(scope="session")
def task_prompt(place, trained):
    method = ["--backbone", place / "backbone" / "model.pt", "--method", "prompt-tuning"]
    return trained("task-prompt", *method, "--prompt-position", 4)


@pytest.fixture(scope="session")
def tuned(place, trained):
    method = ["--backbone", place / "backbone" / "model.pt", "--method", "fine-tuning"]
    return trained("tuned", *method, "--lr", 1e-3, without="--phm-n")


@pytest.fixture(scope="session")
def stock(trained):
    """A checkpoint of fairseq's own task and model."""
    return trained("stock", "--task", "sentence_prediction", "--arch", "roberta", without="--phm-n")


def edited(checkpoint: Path, target: Path, **model_options: object) -> Path:
    """A copy whose configuration says something else of the model."""
    state = torch.load(checkpoint, weights_only=True)
    state["cfg"]["model"].update(model_options)
    torch.save(state, target)
    return target
