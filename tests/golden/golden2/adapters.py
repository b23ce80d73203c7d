"""Cases in which layers are changed: the backbone alone, BitFit, LoRA, parallel adapters, prefixes and MAM."""

import re
from typing import Any

import torch
from torch import Tensor

from fairseq_idpg.methods.adapters.lora import LINEARS
from tests.golden.golden2.case import Case
from tests.golden.golden2.family import OURS, Family, of_backbone, train_method


def backbone_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    return {of_backbone(name): value for name, value in theirs.items()}


def by_layer(theirs: dict[str, Tensor], ending: str) -> list[Tensor]:
    """The tensors of layer 0, 1, … whose names are ``layer.i.`` and ``ending``."""
    found = {
        int(name.split(".")[1]): value for name, value in theirs.items() if re.sub(r"^layer\.\d+\.", "", name) == ending
    }
    return [found[i] for i in sorted(found)]


def modules_of(theirs: dict[str, Tensor]) -> set[str]:
    """Modules of a layer that have an A and a B, by their names in the file."""
    return {re.sub(r"^layer\.\d+\.|\.lora_[AB]\.weight$", "", name) for name in theirs}


def linear_of(module: str) -> str:
    return OURS[module].split(".")[-1]


def lora_options(case: Case) -> dict[str, Any]:
    short = {linear: name for name, linear in LINEARS.items()}
    projections = ",".join(sorted(short[linear_of(module)] for module in modules_of(case.below("train/"))))
    layers = sorted({int(name.split(".")[1]) for name in case.below("train/")})
    return {
        "method": "lora",
        "lora_rank": case.hyper["r"],
        "lora_alpha": float(case.hyper["alpha"]),
        "lora_projections": projections,
        "lora_layers": ",".join(map(str, layers)),
    }


def lora_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    ours = {}
    for module in modules_of(theirs):
        for which in "AB":
            stack = torch.stack(by_layer(theirs, f"{module}.lora_{which}.weight"))
            ours[f"method.{which.lower()}.{linear_of(module)}"] = stack
    return ours


def bitfit_options(case: Case) -> dict[str, Any]:
    norms = any("LayerNorm" in name for name in case.below("train/"))
    return {"method": "bitfit", "bitfit_layer_norms": str(norms).lower()}


ADAPTER = "ef_ffn_adapter"


def parallel_options(case: Case) -> dict[str, Any]:
    scale = case.hyper["ffn_adapter_scalar"]
    return {
        "method": "adapter-parallel",
        "adapter_hidden_size": case.hyper["ffn_bn"],
        "adapter_scale": "learned" if scale == "learnable_scalar" else scale,
    }


def parallel_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    part = lambda name: by_layer(theirs, f"{ADAPTER}.{name}")  # noqa: E731
    ours = {
        "method.down": torch.stack(part("down_proj.weight")).transpose(1, 2),
        "method.down_bias": torch.stack(part("down_proj.bias")),
        "method.up": torch.stack(part("up_proj.weight")).transpose(1, 2),
        "method.up_bias": torch.stack(part("up_proj.bias")),
    }
    return {**ours, "method.scale": torch.cat(part("scale"))} if part("scale") else ours


# --- prefix tuning, by a network or as a table, and MAM: a network's row is key and value of layer 0, 1, …

NETWORK = {
    "wte.weight": "embedding",
    **{f"control_trans.{layer}": f"mlp.{layer}" for layer in ("0.weight", "0.bias", "2.weight", "2.bias")},
}
PREFIX, ADAPTERS = 0, 1  # parts of mam


def prefix_options(case: Case) -> dict[str, Any]:
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


def mam_options(case: Case) -> dict[str, Any]:
    return {**prefix_options(case), **parallel_options(case), "method": "mam", "adapter_dropout": 0.0}


def mam_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    parts = {PREFIX: network_tensors(theirs, case), ADAPTERS: parallel_tensors(theirs, case)}
    return {
        name.replace("method.", f"method.parts.{i}.", 1): value
        for i, tensors in parts.items()
        for name, value in tensors.items()
    }


FAMILIES = (
    Family("plain", lambda case: {"method": "head-only"}, backbone_tensors),
    Family("lora", lora_options, lora_tensors),
    Family("bitfit", bitfit_options, backbone_tensors),
    Family("parallel", parallel_options, parallel_tensors),
    Family("prefix_mlp", prefix_options, network_tensors, train_method),
    Family("prefix_table", prefix_options, table_tensors),
    Family("mam", mam_options, mam_tensors, train_method),
)
