"""What ``load`` finds again, and what it leaves alone."""

import json
import os
import shutil
import subprocess

import pytest

from fairseq_idpg import load
from fairseq_idpg.errors import InputError
from fairseq_idpg.inference.hub import IDPGHubInterface
from tests.folders import ROOT, write_backbone
from tests.inference.conftest import inputs, make_folder
from tests.inference.saved import write_checkpoint
from tests.inference.test_hub import HEAD


@pytest.fixture
def moved(place, folders, tmp_path):
    """A checkpoint of a run whose data and encoder are no longer where they were, in a folder with a backbone."""
    old = tmp_path / "old"
    shutil.copytree(place / "vocab", old / "vocab")
    backbone = shutil.copyfile(place / "backbone" / "model.pt", tmp_path / "model.pt")
    data, tuning = make_folder(old, "singles"), ["--method", "prompt-tuning"]
    checkpoint = write_checkpoint(tmp_path / "run" / "x.pt", data, backbone, *tuning)
    shutil.rmtree(old)
    return checkpoint


@pytest.mark.parametrize("where", ["named", "beside the backbone", "beside the checkpoint"])
def test_the_encoder_is_found_where_it_is_now(where, moved, place, tmp_path):
    with pytest.raises(InputError, match=r"x.pt .gpt2. .*vocab"):
        load(moved, device="cpu")
    folder = {"named": tmp_path / "new", "beside the backbone": tmp_path, "beside the checkpoint": moved.parent}[where]
    shutil.copytree(place / "vocab", folder, dirs_exist_ok=True)
    model = load(moved, device="cpu", vocab=folder if where == "named" else None)
    assert model.text.encoder.files[0].parent == folder and model.predict(["red cat"])[0].label in ("good", "bad")


@pytest.mark.parametrize("file, content", {"vocab.bpe": "#version: 0.2\nt h\n", "dict.txt": "0 1\n1 1\n"}.items())
def test_another_encoder_is_refused(file, content, moved, place, tmp_path):
    shutil.copytree(place / "vocab", tmp_path / "vocab")
    if file == "vocab.bpe":
        pieces = json.loads((tmp_path / "vocab" / "encoder.json").read_text())
        (tmp_path / "vocab" / "encoder.json").write_text(json.dumps({**pieces, "th": len(pieces)}))
    (tmp_path / "vocab" / file).write_text(content)
    kind = "encoder" if file == "vocab.bpe" else "dictionary"
    with pytest.raises(InputError, match=f"{kind} .* is not the one that"):
        load(moved, device="cpu", vocab=tmp_path / "vocab")


def test_a_backbone_that_has_moved(moved, place, tmp_path):
    shutil.move(tmp_path / "model.pt", tmp_path / "new.pt")
    with pytest.raises(InputError, match="model.pt.*`backbone`"):
        load(moved, device="cpu", vocab=place / "vocab")
    assert load(moved, device="cpu", backbone=tmp_path / "new.pt", vocab=place / "vocab").predict(["red"])
    other = write_backbone(tmp_path / "other.pt", seed=1, words=256)
    with pytest.raises(InputError, match="is not the backbone"):
        load(moved, device="cpu", backbone=other, vocab=place / "vocab")


def test_a_folder_that_our_preprocess_did_not_make_needs_the_name_of_its_encoder(place, folders, tmp_path):
    shutil.copytree(folders["pairs"], tmp_path / "data")
    for name in ("preprocess.json", "sha256.txt"):
        (tmp_path / "data" / name).unlink()
    path = write_checkpoint(tmp_path / "x.pt", tmp_path / "data", place / "backbone" / "model.pt", "--method", "lora")
    for where in ({}, {"vocab": tmp_path / "data"}):
        with pytest.raises(InputError, match="vocab"):
            load(path, device="cpu", **where)
    assert len(load(path, device="cpu", vocab=place / "vocab").predict(inputs("pairs"))) == 16


def test_sentences_are_cut_as_the_data_was(place, tmp_path, caplog):
    shutil.copytree(place / "vocab", tmp_path / "vocab")
    data = make_folder(tmp_path, "singles", "--max-length", 6)
    path = write_checkpoint(tmp_path / "x.pt", data, place / "backbone" / "model.pt", "--method", "lora")
    model = load(path, device="cpu")
    assert [len(ids) for ids in model.text.encode(["red", "red cat sat"])] == [4, 7]
    assert model.predict(["red catastrophe"])[0].probabilities == model.predict(["red cat"])[0].probabilities
    caplog.clear()
    assert [found.cut for found in model.predict(["red catastrophe", "redcat", "red cat"])] == [True, False, True]
    assert "shortening 2 sentences to 6 tokens" in caplog.text


STATE = """
import logging, sys
import numpy, torch

def state():
    root = logging.getLogger()
    return {
        "handlers": list(root.handlers), "level": root.level, "disabled": root.manager.disable,
        "excepthook": sys.excepthook, "gradients": torch.is_grad_enabled(), "threads": torch.get_num_threads(),
        "dtype": torch.get_default_dtype(), "torch": torch.get_rng_state().tolist(),
        "numpy": numpy.random.get_state()[1].tolist(), "deterministic": torch.are_deterministic_algorithms_enabled(),
    }

before = state()
import fairseq_idpg
imported = state()
model = fairseq_idpg.load(sys.argv[1], device="cpu")
loaded = state()
model.predict(["red cat", "dog"], features=True, prompts=True)
for name, after in (("import", imported), ("load", loaded), ("predict", state())):
    assert after == before, (name, [key for key in before if after[key] != before[key]])
"""


def test_global_state_is_left_alone(idpg, python):
    command = [str(python), "-c", STATE, str(idpg("singles"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "" and "INFO" not in done.stderr


def test_a_backbone_that_is_written_to_is_noticed(moved, place, tmp_path):
    """Its weights are in its file; see tests/backbone/test_shared_weights.py."""
    one, many = (load(path, device="cpu", vocab=place / "vocab") for path in (moved, {"one": moved}))
    hub, texts = IDPGHubInterface(one), ["red cat"]
    row = hub.encode(*texts)
    os.utime(tmp_path / "model.pt", ns=(0, 0))
    for ask, given in ((one.predict, texts), (many.predict, texts), (hub.extract_features, row)):
        with pytest.raises(InputError, match=f"{tmp_path / 'model.pt'} was written to"):
            ask(given)
    with pytest.raises(InputError, match="was written to"):
        hub.predict(HEAD, row)
