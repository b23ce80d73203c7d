"""The presets at the size of the tiny model, and what is known of each."""

from __future__ import annotations

import torch

from tests.helpers import TINY, enlarge, tiny_model
from tests.plain import gelu, gelu_tanh, plain_houlsby, plain_parallel, plain_pfeiffer, relu

PARALLEL = ["adapter-parallel", "adapter-scaled-parallel"]
ADAPTERS = ["adapter", "adapter-pfeiffer", "adapter-drop", *PARALLEL, "compacter", "compacter-shared"]
DENSE = {"down", "up", "down_bias", "up_bias"}
FACTORS = {"a", "down_s", "down_t", "up_s", "up_t", "down_bias", "up_bias"}
OWN = {name: {f"method.{part}" for part in (DENSE if name.startswith("adapter") else FACTORS)} for name in ADAPTERS}
PLAIN = {
    "adapter": (plain_houlsby, gelu),
    "adapter-drop": (plain_houlsby, gelu),
    "adapter-pfeiffer": (plain_pfeiffer, relu),
    **dict.fromkeys(PARALLEL, (plain_parallel, relu)),
    "compacter": (plain_houlsby, gelu),
    "compacter-shared": (plain_houlsby, gelu_tanh),
}
HEAD = {
    f"classification_heads.sentence_classification_head.{layer}.{part}"
    for layer in ("dense", "out_proj")
    for part in ("weight", "bias")
}
STACK = "encoder.sentence_encoder."
LAYER_NORMS = {
    f"{STACK}{norm}.{part}"
    for norm in (
        "layernorm_embedding",
        *(f"layers.{i}.{which}_layer_norm" for i in range(TINY["encoder_layers"]) for which in ("self_attn", "final")),
    )
    for part in ("weight", "bias")
}


def adapted(method: str, **options):
    """A tiny model with adapters whose every parameter matters, without dropout in them."""
    model = tiny_model(method=method, **{"adapter_hidden_size": 8, "adapter_dropout": 0.0, **options})
    enlarge(model)
    return model


def plain_adapters(model) -> dict[int, tuple]:
    """Layer -> its adapters, written out plainly."""
    write, activation = PLAIN[model.args.method]
    return {layer: write(model.method, i, activation) for i, layer in enumerate(model.method.layers)}


def trained_in_two_steps(model, tokens: torch.Tensor) -> set[str]:
    """Names of what two steps of Adam on some loss change."""
    before = {name: value.clone() for name, value in model.named_parameters()}
    optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=0.1, eps=1e-30)
    for _ in range(2):  # what is multiplied by a zero at the start has no gradient in the first step
        optimizer.zero_grad()
        out, _ = model.train()(tokens, classification_head_name="sentence_classification_head")
        torch.nn.functional.cross_entropy(out, torch.arange(len(out)) % 2).backward()
        optimizer.step()
    return {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
