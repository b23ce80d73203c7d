"""Checkpoints whose values somebody has changed and signed anew, as anybody can: each is refused in a line."""

from __future__ import annotations

import contextlib
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from fairseq_idpg import load
from fairseq_idpg.errors import InputError, ModelFault
from fairseq_idpg.export import export
from fairseq_idpg.inference.folder import load_on_folder, predict_split
from fairseq_idpg.models.config import METHOD_OPTIONS
from fairseq_idpg.saving.checksum import carry_checksum
from fairseq_idpg.saving.shared_folder import write_shared
from tests.inference.test_predictor import inputs

HALF = "\udc80x"  # of a surrogate pair: no text of UTF-8
OUT = "classification_heads.sentence_classification_head.out_proj.weight"
FINGERPRINT = "backbone_fingerprint"


def of_record(name, value):
    return lambda state: state["model"]["_extra_state"]["record"].update({name: value})


def of_options(section, name, value):
    return lambda state: state["cfg"][section].update({name: value})


def of_tensors(name, value):
    return lambda state: state["model"].update({name: value})


def crafted(checkpoint, path, change):
    state = torch.load(checkpoint, weights_only=True)
    change(state)
    carry_checksum(state["model"])
    torch.save(state, path)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (of_record("labels", [HALF, "b"]), r"the record of .* is damaged \(labels: "),
        (of_record("task", HALF), r"the record of .* is damaged \(task: "),
        (of_record("vectors", {"a": HALF}), r"the record of .* is damaged \(vectors: "),
        (of_record("tokens", {HALF: 0}), r"the record of .* is damaged \(tokens: "),
        (of_options("task", "classification_head_name", HALF), "--classification-head-name .* which is no text: give"),
        (of_options("task", "num_classes", 2**63), "--num-classes 9223372036854775808, which no model has"),
        (of_options("task", "num_classes", 2**31), "--num-classes 2147483648, which no model has"),
        (of_options("model", "encoder_embed_dim", -32), "--encoder-embed-dim -32, which no model has"),
        (of_options("model", "encoder_layers", 0), "--encoder-layers 0, which no model has"),
        (of_options("model", "pooler_dropout", -1.0), "--pooler-dropout -1.0, which is no share"),
        (of_options("model", "attention_dropout", 1.0), "--attention-dropout 1.0, which is no share"),
        (of_tensors(FINGERPRINT, torch.tensor([300] * 32)), "its backbone_fingerprint is no fingerprint"),
        (of_tensors(FINGERPRINT, torch.zeros(4, 8, dtype=torch.uint8)), "its backbone_fingerprint is no fingerprint"),
    ],
)
def test_by_all_that_read_one(change, message, idpg, folders, tmp_path):
    path = crafted(idpg("singles"), tmp_path / "x.pt", change)
    for read in (
        lambda: load(path, device="cpu").predict(["red"]),
        lambda: predict_split(*load_on_folder(str(path), str(folders["singles"]), cpu=True), "valid"),
        lambda: export(path, tmp_path / "shared"),
    ):
        with pytest.raises(InputError, match=message):
            read()
    assert not (tmp_path / "shared").exists()


@pytest.fixture
def nothing_large():
    """No module of this test has memory for a large tensor."""

    def look(module, name, tensor):
        assert tensor is None or tensor.is_meta or tensor.numel() < 2**20, name

    with contextlib.ExitStack() as hooks:
        for kind in ("parameter", "buffer"):
            register = getattr(torch.nn.modules.module, f"register_module_{kind}_registration_hook")
            hooks.callback(register(look).remove)
        yield


LARGE = 2**15
MUCH = {
    "products": {"prompt_length": LARGE, "generator_hidden_size": LARGE},
    "experts": {"method": "adamix", "prompt_length": None, "adamix_experts": LARGE, "adapter_hidden_size": LARGE},
    "modules": {"method": "adapter", "prompt_length": None, "encoder_layers": LARGE},
    "frozen rows": {"method": "attempt", "attempt_sources": LARGE, "prompt_length": LARGE},
    "a head": {"encoder_embed_dim": LARGE},
    "a backbone": {"encoder_embed_dim": LARGE, "save_full_model": True, "backbone": None},
    "layers of a backbone": {"encoder_layers": LARGE, "save_full_model": True, "backbone": None},
}


@pytest.mark.parametrize("name", MUCH)
def test_a_model_that_is_larger_than_its_file(name, idpg, folders, tmp_path, nothing_large):
    def change(state):
        given = {name: value for name, value in state["cfg"]["model"].items() if name not in METHOD_OPTIONS}
        state["cfg"]["model"] = {**given, "prompt_length": 3, **MUCH[name]}

    path = crafted(idpg("singles"), tmp_path / "x.pt", change)
    for read in (
        lambda: load(path, device="cpu"),
        lambda: load_on_folder(str(path), str(folders["singles"]), cpu=True),
        lambda: export(path, tmp_path / "shared"),
    ):
        with pytest.raises(InputError, match=f"{path}.* larger"):
            read()
    assert not (tmp_path / "shared").exists()


def test_a_folder_that_describes_more_than_it_holds(shared_copy, nothing_large):
    config = json.loads((shared_copy / "config.json").read_text())
    config["options"]["model"].update(prompt_length=LARGE, generator_hidden_size=LARGE)
    write_shared(shared_copy, load_file(shared_copy / "prompt.safetensors"), config)
    with pytest.raises(InputError, match=f"{shared_copy}.* larger"):
        load(shared_copy, device="cpu")


def without(option):
    return lambda state: [section.pop(option, None) for section in state["cfg"].values() if isinstance(section, dict)]


@pytest.mark.parametrize("option", ["regression_target", "classification_head_name", "seed"])
def test_an_option_that_no_section_records(option, idpg, folders, tmp_path):
    path = crafted(idpg("singles"), tmp_path / "x.pt", without(option))
    whole, answer = (load(checkpoint, device="cpu").predict(["red"]) for checkpoint in (idpg("singles"), path))
    assert answer == whole
    predict_split(*load_on_folder(str(path), str(folders["singles"]), cpu=True), "valid")


@pytest.mark.parametrize(
    ("section", "option", "value"),
    [("task", "update_freq", [1] * 10**6), ("model", "prompt_layers", "1," * 10**6), ("model", "method", "a" * 10**6)],
)
def test_an_option_that_is_longer_than_a_command_line(section, option, value, idpg, tmp_path):
    path = crafted(idpg("singles"), tmp_path / "x.pt", of_options(section, option, value))
    with pytest.raises(InputError, match=f"{path} says --{option.replace('_', '-')} ") as refused:
        load(path, device="cpu")
    assert len(str(refused.value)) < 1000


def test_a_head_without_a_shape(idpg, folders, tmp_path):
    path = crafted(idpg("singles"), tmp_path / "x.pt", of_tensors(OUT, torch.tensor(0.0)))
    for read in (
        lambda: load(path, device="cpu"),
        lambda: load_on_folder(str(path), str(folders["singles"]), cpu=True),
    ):
        with pytest.raises(InputError, match=r"head sentence_classification_head is \[\], and no outputs x width"):
            read()


def test_no_backbone_is_named(idpg, tmp_path):
    path = crafted(idpg("singles"), tmp_path / "x.pt", of_options("model", "backbone", None))
    with pytest.raises(InputError, match="the backbone of .*, None, is not there: say with backbone where it is now"):
        load(path, device="cpu")


def test_a_scale_that_leaves_nothing_finite(idpg, folders, tmp_path):
    path = crafted(idpg("scores"), tmp_path / "x.pt", of_record("scale", 1e300))
    with pytest.raises(ModelFault, match="the prediction of input [0-9]+ is not finite"):
        load(path, device="cpu").predict(inputs("scores")[:5])
    silent = shutil.copytree(folders["scores"], tmp_path / "silent")
    for name in ("preprocess.json", "sha256.txt"):  # so that only the checkpoint knows of a scale
        (silent / name).unlink()
    with pytest.raises(InputError, match="of 16 predictions of split valid are not finite"):
        predict_split(*load_on_folder(str(path), str(silent), cpu=True), "valid")


def test_messages_are_of_a_line_that_can_be_read(idpg, folders, tmp_path):
    path = crafted(idpg("singles"), tmp_path / "x.pt", of_record("labels", ["a" * 10**5, "b"]))
    with pytest.raises(InputError, match="aaa, b") as raised:
        load_on_folder(str(path), str(folders["singles"]), cpu=True)
    assert len(str(raised.value)) < 1000
