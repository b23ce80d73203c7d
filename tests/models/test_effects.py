"""Whatever option is set changes something, or is refused."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.registry import PRESETS, find_preset
from fairseq_idpg.models.config import METHOD_OPTIONS
from fairseq_idpg.options_table import values_of
from fairseq_idpg.representations.kinds import GLOVE
from tests.folders import train, validate, write_backbone, write_folder
from tests.helpers import enlarge

from .started import behaviour, differ, made, usual

SOME = {  # other values than those that some preset has
    "prompt_length": [3],
    "prompt_layers": ["first", "all", "0,2", "1,2", "middle", "1"],
    "prompt_init": ["normal", "standard-normal", "uniform", "vocabulary"],
    "prompt_init_text": ["0 3"],
    "prompt_init_from": ["nowhere.pt"],
    "prefix_dropout": [0.5],
    "source_prompts": ["nowhere.pt"],
    "spot_target": ["nowhere.pt"],
    "spot_embeddings": ["nowhere.pt"],
    "spot_average": [2],
    "attempt_sources": [2],
    "attempt_hidden_size": [9],
    "attempt_temperature": ["0.5"],
    "reparameterization_hidden_size": [9],
    "words_rank": [3],
    "words_length": [4],
    "words_alpha": [3.0],
    "ept_experts": [0, 2],
    "ept_hidden_size": [9],
    "ept_init_length": [70],
    "smop_prompts": [3],
    "smop_chosen": [2],
    "smop_balance": [0.5],
    "generator_hidden_size": [8],
    "phm_n": [2],
    "representation_width": [5],
    "generator_dropout": [0.5],
    "adapter_hidden_size": [8],
    "adapter_layers": ["0,2"],
    "adapter_activation": ["relu", "gelu"],
    "adapter_dropout": [0.5],
    "adapter_init_std": [0.1],
    "compacter_n": [2],
    "adapter_scale": ["1", "2.5", "learned"],
    "adapter_drop": ["0", "2"],
    "adamix_experts": [2],
    "adamix_consistency": [0.0, 0.5],
    "lora_rank": [3],
    "lora_alpha": [5.0],
    "lora_projections": ["q,v", "all", "k,fc2"],
    "lora_layers": ["0,2"],
    "lora_dropout": [0.5],
}


def other_values(declared):
    """All choices of an option, or another number than its default."""
    default = declared.metadata["preset_default"]
    if isinstance(default, bool):
        return [True]
    return values_of(declared) or (
        [] if isinstance(default, str) else [default + (1 if isinstance(default, int) else 0.5)]
    )


VALUES = {**{name: other_values(declared) for name, declared in METHOD_OPTIONS.items()}, **SOME}
CONTEXTS = [  # what goes before: the settings with which some option has no effect, or only then one
    {},
    {"prompt_layers": "first"},
    {"prompt_layers": "all"},
    {"prompt_insertion": "key-value"},
    {"prompt_insertion": "key-value", "prompt_layers": "1,2"},
    {"prompt_insertion": "key-value", "prompt_layers": "2"},
    {"prompt_insertion": "key-value", "prompt_layers": "all"},
    {"prompt_insertion": "late", "prompt_layers": "first"},
    {"prompt_insertion": "late", "prompt_layers": "1,2"},
    {"prompt_insertion": "add", "prompt_layers": "first"},
    {"prompt_insertion": "add", "prompt_layers": "all"},
    {"prompt_init": "text", "prompt_init_text": "1 2"},
    {"prompt_reparameterization": "prefix-mlp"},
    {"generator": "dnn"},
    {"representation": GLOVE, "representation_width": 8},
    {"representation": "backbone"},
    {"generator_residual": True},
    {"generator_residual": True, "generator_layer_norm": True},
    {"no_freeze_backbone": True},
    {"adapter_drop_random": True},
    {"ept_fusion": "none"},
    {"ept_fusion": "none", "ept_decomposition": "false"},
    {"ept_experts": 0},
    {"attempt_init": "own"},
]
IN_EVERY_CONTEXT = {
    "m-idpg-phm",
    "p-tuning-v2",
    "adapter",
    "compacter",
    "adapter-drop",
    "bitfit",
    "lpt-npg",
    "id-spam",
    "dept",
    "ept",
    "smop",
    "attempt",
    "adamix",
}  # the others are presets of these


def shapes(model):
    """Of what is trained, and of what a method keeps besides."""
    trained = {name: p.shape for name, p in model.named_parameters() if p.requires_grad}
    kept = {} if model.method is None else {name: value.shape for name, value in model.method.named_buffers()}
    return trained, kept


def has_effect(base, changed, option):
    """Whether other tensors are trained or kept, or start elsewhere, or the same tensors give another pass."""
    if shapes(base) != shapes(changed):
        return True
    if "init" in option and differ(base.method.state_dict().values(), changed.method.state_dict().values()):
        return True
    state = base.state_dict()
    changed.load_state_dict({**changed.state_dict(), **state}, strict=False)
    return differ(behaviour(base), behaviour(changed))


def same_thing(context, option, value):
    """M(x) is what --representation backbone reads for the input alone; the middle of three layers is the last."""
    place = context.get("prompt_layers")
    return (option, value, place) in (("representation", "backbone", "first"), ("prompt_layers", "middle", "2"))


@pytest.mark.parametrize("method", sorted(PRESETS))
def test_an_option_changes_something_or_is_refused(method):
    defaults, tried, idle = find_preset(method).defaults, 0, []
    for context in CONTEXTS if method in IN_EVERY_CONTEXT else [{}]:
        if not (context.keys() - {"no_freeze_backbone"}) <= defaults.keys():
            continue
        before = {**usual(method), **context}
        try:
            base = made(method, **before)
        except InputError:
            continue  # the context is impossible with this method
        if base.method is not None:
            enlarge(base.method)
        for option, value in ((option, value) for option, values in VALUES.items() for value in values):
            if option not in defaults or str(getattr(base.args, option)) == str(value):
                continue
            try:
                changed = made(method, **{**before, option: value})
            except InputError:
                continue
            tried += 1
            if not has_effect(base, changed, option) and not same_thing(context, option, value):
                idle.append((context, option, value))
    assert not idle
    assert (tried > 0) == bool(defaults)


def test_command_line(tmp_path):
    """A run is refused; what an older run recorded is not."""
    data, backbone = write_folder(tmp_path / "data"), write_backbone(tmp_path / "model.pt")
    run = ["--backbone", backbone, "--max-update", 1]
    adapter = [*run, "--method", "adapter"]
    line = train(data, tmp_path / "a", *adapter, "--prompt-position", 1, succeed=False, without="--phm-n").last_line
    assert "--prompt-position 1 has no effect" in line
    line = train(data, tmp_path / "b", *run, *"--prompt-layers first --generator-sharing S".split(), succeed=False)
    assert "--generator-sharing S has no effect" in line.last_line
    trained = train(data, tmp_path / "c", *run, "--prompt-layers", "first")
    checkpoint = tmp_path / "c" / "checkpoint_last.pt"
    state = torch.load(checkpoint, weights_only=True)
    state["cfg"]["model"]["generator_sharing"] = "S"
    torch.save(state, checkpoint)
    assert validate(data, checkpoint).log("valid_loss") == pytest.approx(trained.log("valid_loss")[-1:], abs=1e-3)
