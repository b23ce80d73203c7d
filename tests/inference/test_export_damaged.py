"""A folder to share from a stranger: whatever is wrong with it is refused, and nothing of it is run."""

from __future__ import annotations

import json

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
    "another format": at("format", value=2),
    "an unknown key": at("hook", value="os.system"),
    "another method": at("method", value="lora"),
    "a string for a size": at("options", "model", "prompt_length", value="3"),
    "a huge size": at("options", "model", "prompt_length", value=10**12),
    "another size": at("options", "model", "prompt_length", value=4),
    "an interpolation": at("options", "model", "prompt_init_text", value="${oc.env:HOME}"),
    "another criterion": at("options", "criterion", "_name", value="ctc"),
    "no task": at("options", value={"model": {}}),
    "another fingerprint": at("backbone", "tensors_sha256", value="0" * 64),
    "another dictionary": at("data", "dictionary", value="0" * 64),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_configuration(name, shared_copy):
    same_but_for(shared_copy, HOSTILE[name])
    with pytest.raises(InputError) as error:
        load(shared_copy, device="cpu")
    assert "\n" not in str(error.value)


def test_a_damaged_configuration(shared_copy):
    """See tests/test_readers.py for damage of other kinds."""
    for text in ('{"format": 1, "format": 1}', "[" * 100_000, " " * 1_000_001):
        (shared_copy / "config.json").write_text(text)
        with pytest.raises(InputError, match="config.json"):
            load(shared_copy)


def test_damaged_tensors(shared_copy):
    path = shared_copy / "prompt.safetensors"
    tensors = load_file(path)
    name = next(name for name, value in tensors.items() if value.is_floating_point())
    save_file({**tensors, name: tensors[name] + 1}, path)
    with pytest.raises(InputError, match=str(shared_copy)):
        load(shared_copy)
    for more in ({name: tensors[name] * torch.nan}, {"encoder.sentence_encoder.layers.0.fc1.bias": torch.zeros(3)}):
        save_file({**tensors, **more}, path)
        same_but_for(shared_copy, lambda config: None)
        with pytest.raises(InputError, match=next(iter(more))):
            load(shared_copy)
