"""A new method is one file: dropped into a copy of the package it is trained, saved, resumed, counted, documented."""

import re
import shutil
import subprocess
import sys

import pytest
import torch

from tests.contract import HEAD
from tests.folders import ROOT, saved, train, validate
from tests.helpers import ALWAYS_SAVED

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
(DUMMY,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
WEIGHT = "encoder.sentence_encoder.layers.1.fc1.weight"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The package under another name, with one more file."""
    package = tmp_path_factory.mktemp("with_dummy") / "copied"
    shutil.copytree(ROOT / "fairseq_idpg", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "methods" / "prompts" / "dummy.py").write_text(DUMMY)
    return package


@pytest.fixture(scope="module")
def dummy(copy, backbone):
    options = ["--user-dir", copy, "--backbone", backbone, "--method", "dummy", "--dummy-scale", 0.5]
    return lambda data, folder, *more, **how: train(data, folder, *options, *more, without="--phm-n", **how)


@pytest.fixture(scope="module")
def trained(dummy, pairs, tmp_path_factory):
    """(the run, its checkpoint) of two epochs, the frozen backbone saved as well."""
    folder = tmp_path_factory.mktemp("dummy")
    return dummy(pairs, folder, "--max-epoch", 2, "--save-full-model"), folder / "checkpoint_last.pt"


def test_its_checkpoints_hold_what_is_trained_and_are_resumed_to_the_same_losses(trained, copy, dummy, pairs, tmp_path):
    parts = [dummy(pairs, tmp_path, "--max-epoch", epochs) for epochs in (1, 2)]
    whole, full = trained[0], saved(trained[1].parent)
    assert parts[0].log("train_loss") + parts[1].log("train_loss") == whole.log("train_loss")
    own = saved(tmp_path)
    assert set(own) == {"method.table", WEIGHT} | HEAD | ALWAYS_SAVED
    assert all(torch.equal(own[key], full[key]) for key in {"method.table", WEIGHT} | HEAD)
    again = validate(pairs, trained[1], "--user-dir", copy)
    assert again.log("valid_loss") == pytest.approx(trained[0].log("valid_loss")[-1:], abs=1e-3)


def test_tables_have_its_rows(copy):
    asked = "from copied.options_table import PARTS; print([made() for _, _, made in PARTS])"
    command = [sys.executable, "-c", asked]
    environment = {"PYTHONPATH": f"{copy.parent}:{ROOT}"}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert "| `--dummy-scale` | 1 | factor of the rows |" in said and "In training P = A B" in said
    assert "| `dummy` | P = scale * table; W1 of the second layer is trained too. |" in said
