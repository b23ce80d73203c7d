"""--checkpoint-activations: layers are run again in the backward pass, on the same draws, and nothing else changes."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.methods.registry import PRESETS

from .started import behaviour, made, usual
from .test_saved_activations import LATE, kept_bytes

KEEPING = PRESETS.keys() - {"head-only"}
IN_LAYERS = {  # what is made while a layer is run, with draws of its own
    "prefix-tuning": {"prefix_dropout": 0.5},
    "adapter": {"adapter_dropout": 0.5, "activation_dropout": 0.2},
    "lora-all": {"lora_dropout": 0.5},
    "adapter-drop": {"adapter_drop": "0", "adapter_drop_random": True},
    "m-idpg-phm": {"prompt_insertion": "key-value", "representation_dropout": True, "generator_dropout": 0.5},
    "lora+id-spam": {},
    "smop": {"prompt_insertion": "key-value", "prompt_layers": "all", "smop_balance": 0.5},
    "attempt": {"prompt_insertion": "key-value-input", "prompt_layers": "1,2"},
    "fine-tuning": {"activation_dropout": 0.2},
}
WITH_A_GRADIENT = {  # M(x), which is computed without dropout and run again while dropout is on
    "s-idpg-phm": {"no_freeze_backbone": True},
    "m-idpg-dnn+adapter": {"train_layer_norms": "true"},
    "lpt-mppg": {"no_freeze_backbone": True, "generator_input": "last"},
    "bitfit+m-idpg-dnn": {"attention_dropout": 0.0},
}
CASES = [*((name, {}) for name in sorted(KEEPING)), *IN_LAYERS.items(), *WITH_A_GRADIENT.items()]


@pytest.mark.parametrize(("method", "options"), CASES)
def test_losses_and_gradients_stay_bitwise(method, options):
    options = {**usual(method), **options}
    stored, again = (behaviour(made(method, **options, checkpoint_activations=each)) for each in (False, True))
    assert len(stored) == len(again)
    assert all(torch.equal(one, other) for one, other in zip(stored, again))


@pytest.mark.parametrize("method", ["prompt-tuning", "m-idpg-phm", "p-tuning-v2-kv", "adapter", "lora", "fine-tuning"])
def test_a_layer_keeps_its_input(method):
    """A layer more keeps the T x B x d that enter it, and what the method keeps of its own between the layers."""

    def of_a_layer(**more) -> int:
        four, eight = (kept_bytes(method, encoder_layers=n, **usual(method), **more) for n in (4, 8))
        return (eight - four) // 4

    assert of_a_layer(checkpoint_activations=True) < 0.25 * of_a_layer()


@pytest.mark.parametrize("method", LATE)
def test_below_the_first_slot_nothing_is_kept(method):
    kept = {kept_bytes(method, encoder_layers=n, prompt_layers=str(n - 2), checkpoint_activations=True) for n in (3, 6)}
    assert len(kept) == 1
