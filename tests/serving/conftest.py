"""Checkpoints on sentences and on pairs that share one backbone."""

import pytest

from tests.inference.conftest import make_folder, vocab_and_backbone
from tests.inference.saved import write_checkpoint

OPTIONS = {"singles": ["--method", "m-idpg-dnn", "--prompt-length", 3], "pairs": ["--method", "lora"]}


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    return vocab_and_backbone(tmp_path_factory.mktemp("serving"))


@pytest.fixture(scope="session")
def checkpoints(place):
    """{kind of texts: checkpoint}; pairs have no prompt."""
    backbone = place / "backbone" / "model.pt"
    return {
        kind: write_checkpoint(place / f"{kind}.pt", make_folder(place, kind), backbone, *options)
        for kind, options in OPTIONS.items()
    }
