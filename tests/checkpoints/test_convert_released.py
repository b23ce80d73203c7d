"""convert_released.py as a command: a tiny checkpoint in the released code's format, validated and resumed from."""

import argparse
from pathlib import Path

import pytest
import torch

from checkpoints.convert_released import convert, main, our_options
from fairseq_idpg.errors import InputError
from tests.folders import changed, validate, write_backbone, write_folder
from tests.helpers import TINY

PROMPTS = {
    **{name: TINY[name] for name in TINY if name != "max_positions"},
    **{"dropout": 0.1, "attention_dropout": 0.1, "max_positions": TINY["max_positions"], "insert_position": 1},
    **{"add_suffix": True, "suffix_len": 5, "middle_prompt_insert_layer": 1, "middle_prompt_mode": "none"},
    **{"prompt_generation": False, "prompt_insert_mode": 1, "adapter_insert_layer": 25},
    **{"init_token": 0, "separator_token": 2, "regression_target": False},
}
STACK = "encoder.sentence_encoder."


def write_released(path: Path, backbone: Path) -> None:
    """A P-tuning v2 checkpoint of the released code on a backbone."""
    state = torch.load(backbone, weights_only=True)["model"]
    state = {name.replace("layernorm_embedding", "emb_layer_norm"): value for name, value in state.items()}  # its time
    state[f"{STACK}suffix_embed.weight"] = torch.randn(5, 32)
    state[f"{STACK}middle_prompt.weight"] = torch.randn(15, 32)
    state[f"{STACK}multi_layer_norm.weight"] = torch.ones(32)  # allocated there and never read
    head = "classification_heads.sentence_classification_head"
    shapes = {"dense.weight": (32, 32), "dense.bias": (32,), "out_proj.weight": (2, 32), "out_proj.bias": (2,)}
    state.update({f"{head}.{name}": torch.randn(shape) for name, shape in shapes.items()})
    torch.save({"args": argparse.Namespace(**PROMPTS), "model": state}, path)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with data, a backbone and a checkpoint of the released code on it."""
    folder = tmp_path_factory.mktemp("released")
    write_released(folder / "released.pt", write_backbone(folder / "model.pt"))
    write_folder(folder / "data")
    return folder


def test_prompts_only_with_the_backbone(place, capsys):
    target = place / "small.pt"
    main([str(place / "released.pt"), str(target), "--backbone", str(place / "model.pt")])
    assert "method p-tuning-v2, 480 parameters" in capsys.readouterr().out  # 3 x 5 x 32
    state, source = torch.load(target, weights_only=True), torch.load(place / "released.pt", weights_only=True)["model"]
    tables = torch.stack([source[f"{STACK}suffix_embed.weight"], *source[f"{STACK}middle_prompt.weight"].split(5)[:2]])
    assert torch.equal(state["model"]["method.table"], tables)
    assert not any(name.startswith("encoder.") for name in state["model"])
    assert state["cfg"]["task"]["prompt_position"] == 1
    with pytest.raises(SystemExit, match="exists already"):
        main([str(place / "released.pt"), str(target)])


def test_both_forms_validate_alike(place):
    losses = []
    for name, options in (("with", ["--backbone", str(place / "model.pt")]), ("whole", [])):
        main([str(place / "released.pt"), str(place / f"{name}.pt"), *options])
        losses.append(validate(place / "data", place / f"{name}.pt").log("valid_loss"))
    assert losses[0] == losses[1]


ADAPTER, GENERATION = {"adapter_insert_layer": 1, "adapter_arch": "houlsby"}, {"prompt_generation": True}


@pytest.mark.parametrize("changes", [{"lphm": 4}, ADAPTER, {**GENERATION, "generation_layer": 1}])
def test_what_has_no_equal_here(changes):
    with pytest.raises(ValueError, match="trained with"):
        our_options({**PROMPTS, "adapter_bottleneck_dim": 8, **changes})


def test_files_that_are_no_such_checkpoint(place, tmp_path):
    with pytest.raises(InputError, match="SRC .*model.pt .*classification_heads"):
        convert(place / "model.pt")
    with pytest.raises(InputError, match="another encoder than --backbone"):
        convert(place / "released.pt", write_backbone(tmp_path / "other.pt", seed=1))
    bias = "classification_heads.sentence_classification_head.out_proj.bias"
    for name, said in ((f"{STACK}suffix_embed.weight", "SRC .*x.pt"), (bias, "lacks .*out_proj.bias")):
        path = changed(place / "released.pt", lambda state, name=name: state["model"].pop(name), tmp_path / "x.pt")
        with pytest.raises(InputError, match=said):
            convert(path)
