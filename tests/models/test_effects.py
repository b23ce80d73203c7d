"""Whatever option is set changes something, or is refused."""

import pytest

from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.registry import PRESETS, find_preset
from fairseq_idpg.models.config import METHOD_OPTIONS
from fairseq_idpg.options_table import values_of
from fairseq_idpg.representations.kinds import GLOVE
from tests.helpers import enlarge

from .started import behaviour, differ, made, usual

SOME = {  # other values than those that some preset has
    "prompt_length": [3],
    "prompt_layers": ["first", "all", "0,2", "1,2", "middle", "1"],
    "prompt_init": ["normal", "standard-normal", "uniform", "vocabulary"],
    "prompt_init_text": ["0 3"],
    **dict.fromkeys(("prompt_init_from", "source_prompts", "spot_target", "spot_embeddings"), ["nowhere.pt"]),
    "attempt_temperature": ["0.5"],
    **{"words_rank": [3], "words_length": [4], "ept_experts": [0, 2], "representation_width": [5]},
    **dict.fromkeys(("generator_hidden_size", "adapter_hidden_size"), [8]),
    **dict.fromkeys(("phm_n", "compacter_n"), [2]),
    **dict.fromkeys(("adapter_layers", "lora_layers"), ["0,2"]),
    "adapter_activation": ["relu", "gelu"],
    "adapter_scale": ["1", "2.5", "learned"],
    "adapter_drop": ["0", "2"],
    "adamix_consistency": [0.0, 0.5],
    "lora_projections": ["q,v", "all", "k,fc2"],
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
    {"prompt_insertion": "key-value", "prompt_layers": "all"},
    {"prompt_insertion": "late", "prompt_layers": "1,2"},
    {"prompt_insertion": "add", "prompt_layers": "all"},
    {"prompt_init": "text", "prompt_init_text": "1 2"},
    {"prompt_reparameterization": "prefix-mlp"},
    {"generator": "dnn"},
    {"representation": GLOVE, "representation_width": 8},
    {"generator_residual": True},
    {"generator_residual": True, "generator_layer_norm": True},
    {"no_freeze_backbone": True},
    {"adapter_drop_random": True},
    {"ept_fusion": "none", "ept_decomposition": "false"},
    {"ept_experts": 0},
    {"attempt_init": "own"},
]
IN_EVERY_CONTEXT = {"m-idpg-phm", "p-tuning-v2", "adapter", "id-spam", "ept"}


def shapes(model):
    """Of what is trained, and of what a method keeps besides."""
    trained = {name: p.shape for name, p in model.named_parameters() if p.requires_grad}
    kept = {} if model.method is None else {name: value.shape for name, value in model.method.named_buffers()}
    return trained, kept


def has_effect(base, before, changed, option):
    """Whether other tensors are trained or kept, or start elsewhere, or the same tensors give another pass.

    ``before``: what ``base`` does.
    """
    if shapes(base) != shapes(changed):
        return True
    if "init" in option and differ(base.method.state_dict().values(), changed.method.state_dict().values()):
        return True
    changed.load_state_dict({**changed.state_dict(), **base.state_dict()}, strict=False)
    return differ(before, behaviour(changed))


@pytest.mark.parametrize("method", sorted(PRESETS))
def test_an_option_changes_something_or_is_refused(method):
    defaults, tried, idle = find_preset(method).defaults, 0, []
    for context in CONTEXTS if method in IN_EVERY_CONTEXT else [{}]:
        if not (context.keys() - {"no_freeze_backbone"}) <= defaults.keys():
            continue
        given = {**usual(method), **context}
        try:
            base = made(method, **given)
        except InputError:
            continue  # the context is impossible with this method
        if base.method is not None:
            enlarge(base.method)
        before = behaviour(base)
        for option, value in ((option, value) for option, values in VALUES.items() for value in values):
            if option not in defaults or str(getattr(base.args, option)) == str(value):
                continue
            try:
                changed = made(method, **{**given, option: value})
            except InputError:
                continue
            tried += 1
            # M(x) is what --representation backbone reads for the input alone
            same = (option, value, context.get("prompt_layers")) == ("representation", "backbone", "first")
            if not same and not has_effect(base, before, changed, option):
                idle.append((context, option, value))
    assert not idle
    assert (tried > 0) == bool(defaults)
