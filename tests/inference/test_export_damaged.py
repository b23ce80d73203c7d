"""A folder to share from a stranger: whatever is wrong with it is said in a line, and nothing of it is run."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from fairseq_idpg import load
from fairseq_idpg.errors import InputError
from fairseq_idpg.saving import shared_folder
from tests.inference.test_export import config_of


def same_but_for(folder, change) -> None:
    """Changes what ``config.json`` says as a stranger would, who writes a checksum that fits."""
    config = config_of(folder)
    change(config)
    config["checksum"] = shared_folder._checksum(config, load_file(folder / "prompt.safetensors"))
    (folder / "config.json").write_text(json.dumps(config))


def at(*keys, value):
    """Sets a value somewhere in ``config.json``."""

    def change(config):
        for key in keys[:-1]:
            config = config[key]
        config[keys[-1]] = value

    return change


HOSTILE = {
    "another format": (at("format", value=2), "is of format 2, and this version reads 1"),
    "a format of another kind": (at("format", value=True), "says no format"),
    "an unknown key": (at("hook", value="os.system"), "has 'hook', which this version does not know"),
    "an unknown method": (at("method", value="evil"), "--method evil"),
    "a method of another kind": (at("method", value=["m-idpg-phm"]), "is damaged \\(method"),
    "another method": (at("method", value="lora"), "--method lora"),
    "a string for a size": (at("options", "model", "prompt_length", value="3"), "--prompt-length '3', which is no int"),
    "a huge size": (at("options", "model", "prompt_length", value=10**12), "--prompt-length 1000000000000, which no"),
    "another size": (at("options", "model", "prompt_length", value=4), "this checkpoint.s method"),
    "an interpolation": (at("options", "model", "prompt_init_text", value="${oc.env:HOME}"), "which is no str"),
    "a whole model": (at("options", "model", "save_full_model", value=True), "says that it holds a whole model"),
    "a trained backbone": (at("options", "model", "no_freeze_backbone", value=True), "that it holds a whole model"),
    "another criterion": (at("options", "criterion", "_name", value="ctc"), "--criterion 'ctc'"),
    "no task": (at("options", value={"model": {}}), "is damaged \\(options"),
    "a way out": (at("backbone", "name", value="../../etc/passwd"), "is damaged \\(backbone"),
    "another way out": (at("backbone", "name", value="../passwd"), "is damaged \\(backbone"),
    "no fingerprint": (at("backbone", "tensors_sha256", value="x" * 64), "is damaged \\(backbone"),
    "another fingerprint": (at("backbone", "tensors_sha256", value="0" * 64), "is not the backbone this checkpoint"),
    "labels that are none": (at("data", "labels", value=[1, 2]), "the record of .* is damaged \\(labels"),
    "other labels": (at("data", "labels", value=["a", "b", "c"]), "records 3 labels of 2 classes"),
    "a scale without end": (at("data", "scale", value=0), "the record of .* is damaged \\(scale"),
    "a token of another dictionary": (at("options", "task", "init_token", value=10**6), "--init-token 1000000 is none"),
    "no name of a head": (at("options", "task", "classification_head_name", value="a.b"), "--classification-head-name"),
    "batches of data2vec": (at("options", "task", "d2v2_multi", value=True), "--d2v2-multi is not supported"),
    "another dictionary": (at("data", "dictionary", value="0" * 64), "the encoder of"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_configuration(name, shared_copy):
    change, message = HOSTILE[name]
    same_but_for(shared_copy, change)
    with pytest.raises(InputError, match=message) as error:
        load(shared_copy, device="cpu")
    assert "\n" not in str(error.value)


TEXTS = {
    "nothing": ("", "is damaged"),
    "no object": ("[1]", "says no format"),
    "not a number": ('{"format": NaN}', "NaN is no number"),
    "a number without end": ('{"format": 1e999}', "is damaged"),
    "too many digits": (f'{{"format": {"1" * 5000}}}', "is damaged"),
    "a key twice": ('{"format": 1, "format": 1}', "a key is there twice"),
    "half a character": ('{"format": "\\ud800"}', "is damaged"),
    "too deep": ("[" * 100_000, "is damaged"),
    "too large": (" " * 1_000_001, "it is larger than 1,000,000 bytes"),
    "a key less": ('{"format": 1}', "has no method"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_damaged_configuration(name, shared_copy):
    text, message = TEXTS[name]
    (shared_copy / "config.json").write_text(text)
    with pytest.raises(InputError, match=f"config.json.*{message}"):
        load(shared_copy)


def test_damaged_tensors(shared_copy, tmp_path):
    path = shared_copy / "prompt.safetensors"
    whole, tensors = path.read_bytes(), load_file(path)
    for damaged in (b"", whole[:-1], whole[:100], b"\xff" * 8 + whole[8:], b"PK\x03\x04" + whole):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="prompt.safetensors is damaged or of another kind"):
            load(shared_copy)
    name = next(name for name, value in tensors.items() if value.is_floating_point())
    for other in (tensors[name] + 1, torch.full_like(tensors[name], np.nan)):
        save_file({**tensors, name: other}, path)
        with pytest.raises(InputError, match="are not those that were exported together"):
            load(shared_copy)
    same_but_for(shared_copy, lambda config: None)
    with pytest.raises(InputError, match="NaN or infinite"):
        load(shared_copy)
    for name, message in (("encoder.sentence_encoder.layers.0.fc1.bias", "fc1.bias"), ("_extra_state", "no weights")):
        save_file({**tensors, name: torch.zeros(3)}, path)
        same_but_for(shared_copy, lambda config: None)
        with pytest.raises(InputError, match=message):
            load(shared_copy)
    path.unlink()
    with pytest.raises(InputError, match="is a folder without prompt.safetensors"):
        load(shared_copy)
    with pytest.raises(InputError, match="is not a file: give a checkpoint .* or a folder to share"):
        load(tmp_path / "nothing")
