"""Prefix tuning, by a network or as a table, and MAM: a network's row is key and value of layer 0, 1, …"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.golden.golden2.case import Case
from tests.golden.golden2.family import Family, train_method
from tests.golden.golden2.layers import parallel_options, parallel_tensors

NETWORK = {
    "wte.weight": "embedding",
    **{f"control_trans.{layer}": f"mlp.{layer}" for layer in ("0.weight", "0.bias", "2.weight", "2.bias")},
}
PREFIX, ADAPTERS = 0, 1  # parts of mam


def options(case: Case) -> dict[str, Any]:
    by_network = case.hyper["attn_mode"] == "prefix"
    given = {"method": "prefix-tuning", "prompt_length": case.hyper["attn_bn"]}
    network = {"reparameterization_hidden_size": case.hyper["mid_dim"]}
    return {**given, **(network if by_network else {"prompt_reparameterization": "none"})}


def network_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    return {f"method.reparameterization.{ours}": theirs[f"prefix.{name}"] for name, ours in NETWORK.items()}


def table_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    kinds = ([theirs[f"prefix.decoder_self_attn_{kind}.{i}.weight"] for i in range(len(theirs) // 2)]
             for kind in ("key", "value"))  # fmt: skip
    return {"method.table": torch.stack([torch.cat(pair) for pair in zip(*kinds)])}


def keys_and_values(prefix: Any) -> dict[str, Tensor]:
    prefix.fold()
    halves = [layer.chunk(2) for layer in prefix.table]
    return {f"prefix_{kind}/{i}": pair[j] for i, pair in enumerate(halves) for j, kind in enumerate(("key", "value"))}


def mam_options(case: Case) -> dict[str, Any]:
    return {**options(case), **parallel_options(case), "method": "mam", "adapter_dropout": 0.0}


def mam_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    parts = {PREFIX: network_tensors(theirs, case), ADAPTERS: parallel_tensors(theirs, case)}
    return {
        name.replace("method.", f"method.parts.{i}.", 1): value
        for i, tensors in parts.items()
        for name, value in tensors.items()
    }


FAMILIES = (
    Family(
        "prefix_mlp",
        options,
        network_tensors,
        train_method,
        lambda model, case, passed: keys_and_values(model.method),
    ),
    Family("prefix_table", options, table_tensors, more=lambda model, case, passed: keys_and_values(model.method)),
    Family(
        "mam",
        mam_options,
        mam_tensors,
        train_method,
        lambda model, case, passed: keys_and_values(model.method.parts[PREFIX]),
    ),
)
