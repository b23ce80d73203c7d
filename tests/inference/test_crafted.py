"""Checkpoints whose values somebody has changed and signed anew, as anybody can: they take no more than their room."""

import contextlib
import json

import pytest
import torch
from safetensors.torch import load_file

from fairseq_idpg import load
from fairseq_idpg.errors import InputError
from fairseq_idpg.export import export
from fairseq_idpg.inference.folder import load_on_folder
from fairseq_idpg.models.config import METHOD_OPTIONS
from fairseq_idpg.saving.shared_folder import write_shared
from fairseq_idpg.saving.tensors import carry_checksum
from tests.folders import changed


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
    def craft(state):
        given = {name: value for name, value in state["cfg"]["model"].items() if name not in METHOD_OPTIONS}
        state["cfg"]["model"] = {**given, "prompt_length": 3, **MUCH[name]}
        carry_checksum(state["model"])

    path = changed(idpg("singles"), craft, tmp_path / "x.pt")
    for read in (
        lambda: load(path, device="cpu"),
        lambda: load_on_folder(str(path), str(folders["singles"]), cpu=True),
        lambda: export(path, tmp_path / "shared"),
    ):
        with pytest.raises(InputError, match=str(path)):
            read()
    assert not (tmp_path / "shared").exists()


def test_a_folder_that_describes_more_than_it_holds(shared_copy, nothing_large):
    config = json.loads((shared_copy / "config.json").read_text())
    config["options"]["model"].update(prompt_length=LARGE, generator_hidden_size=LARGE)
    write_shared(shared_copy, load_file(shared_copy / "prompt.safetensors"), config)
    with pytest.raises(InputError, match=str(shared_copy)):
        load(shared_copy, device="cpu")
