"""Checkpoints on sentences and on pairs that share one backbone."""

from __future__ import annotations

import pytest

from tests.analysis.conftest import BYTES, enlarge
from tests.folders import write_backbone
from tests.inference.conftest import make_folder
from tests.inference.saved import write_checkpoint
from tests.preprocess.commands import write_vocab

OPTIONS = {
    "singles": ["--method", "m-idpg-dnn", "--prompt-length", 3],
    "pairs": ["--method", "lora"],
}


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serving")
    write_vocab(folder / "vocab")
    enlarge(write_backbone(folder / "backbone" / "model.pt", words=BYTES))
    return folder


@pytest.fixture(scope="session")
def checkpoints(place):
    """{kind of texts: checkpoint}; pairs have no prompt."""
    return {
        kind: write_checkpoint(
            place / f"{kind}.pt", make_folder(place, kind), place / "backbone" / "model.pt", *options
        )
        for kind, options in OPTIONS.items()
    }
