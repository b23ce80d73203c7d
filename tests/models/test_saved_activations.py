"""What a training step keeps for the backward pass, and --checkpoint-activations, which keeps less of the same."""

import pytest
import torch

from fairseq_idpg.methods.registry import PRESETS
from tests.helpers import logits, pair_batch, tiny_model

from .started import behaviour, made, usual


def kept(model: torch.nn.Module, tokens: torch.Tensor) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: found.append(tensor) or tensor, lambda tensor: tensor):
        logits(model, tokens)
    return found


def kept_bytes(method: str, **options) -> int:
    """Bytes of all storages that the forward pass keeps, parameters aside."""
    model = tiny_model(method=method, **options).train()
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    storages = [tensor.untyped_storage() for tensor in kept(model, pair_batch())]
    sizes = {storage.data_ptr(): storage.nbytes() for storage in storages}
    return sum(size for address, size in sizes.items() if address not in parameters)


def test_dropout_keeps_a_byte_for_each_element():
    """Embeddings, attention and two sublayers of each layer; a dropped sum needs no gradient of its own."""
    dropped, whole = (kept_bytes("prompt-tuning", dropout=p, attention_dropout=p) for p in (0.1, 0.0))
    tokens, width, heads, layers = pair_batch().numel() + 5 * len(pair_batch()), 32, 4, 3
    length = pair_batch().size(1) + 5
    hidden, attention = tokens * width, len(pair_batch()) * heads * length * length
    assert dropped - whole < (1 + 2 * layers) * hidden + layers * attention * 4


LATE = ("lpt-naive", "lpt-npg", "lpt-mppg", "lpt-appg", "id-spam")


@pytest.mark.parametrize("method", LATE)
def test_a_late_prompt_keeps_nothing_of_the_layers_below(method):
    """As much in front of two layers of six as of two of three; a layer more above costs a layer."""

    def of(layers: int, place: int) -> int:
        return kept_bytes(method, encoder_layers=layers, prompt_layers=str(place))

    assert of(6, 4) == of(3, 1) == of(2, 0)
    assert of(6, 3) - of(6, 4) == of(6, 2) - of(6, 3) > 0
    assert of(6, 4) < 0.5 * kept_bytes("prompt-tuning", encoder_layers=6)


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
