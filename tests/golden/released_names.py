"""The released code's options and parameter names in ours.

Parameter layouts: W1 and W2 of the DNN are Linear weights (out x in), ours stand the other way round; PHM factors
are lists of matrices, ours one tensor; output biases are rows of a table.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor

STACK = "encoder.sentence_encoder."
# of an adapter variant; in every released file, read in none of these
STRAY = ".middle_layer_norm."


def our_options(args: dict) -> dict:
    """The released code's arguments as options of this project."""
    same = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads", "dropout")
    options = {name: args[name] for name in (*same, "attention_dropout", "pooler_dropout", "max_positions")}
    every_layer = args["middle_prompt_insert_layer"] == 1
    if not args["add_suffix"]:
        return {**options, "method": "head-only"}
    options.update(prompt_length=args["suffix_len"], prompt_layers="all" if every_layer else "first")
    if not args["prompt_generation"]:
        return {**options, "method": "p-tuning-v2"}
    phm = args["generation_quaternions"] is not None
    options.update(
        method="m-idpg-phm" if phm else "m-idpg-dnn",
        generator_hidden_size=args["phm_bottleneck_dim"],
        generator_sharing={"shared": "S", "layerb": "M", "none": "L"}[args["middle_prompt_mode"]],
        representation="previous-layer" if args["middle_previous"] else "backbone",
        generator_dropout=0.0,
        generator_residual=args["generator_residual"] or None,
        generator_layer_norm=args["generator_layer_norm"] or None,
    )
    if phm:
        options.update(phm_n=args["generation_quaternions"], phm_shared_a="false")
    return options


def _method_tensors(theirs: dict[str, Tensor], model) -> dict[str, Tensor]:
    """Method parameters (or their gradients) under our names."""
    flat = {name[len(STACK) :]: value for name, value in theirs.items() if name.startswith(STACK)}
    method, width = model.method, model.args.encoder_embed_dim
    if method is None:
        return {}
    rows = lambda table: table.reshape(-1, method.prompt_length, width)  # noqa: E731
    if "suffix_embed.weight" in flat:
        table = flat["suffix_embed.weight"]
        if len(method.places) > 1:  # the last rows of middle_prompt are never read
            table = torch.cat([table, flat["middle_prompt.weight"]])[: len(method.places) * method.prompt_length]
        return {"table": rows(table)}
    if "generation_dense.weight" in flat:
        ours = {
            "generators.0.down": flat["generation_dense.weight"].T,
            "generators.0.up": flat["generation_out_proj.weight"].T,
            "generators.0.hidden_bias": flat["generation_dense.bias"],
        }
        bias = flat.get("generation_out_proj.bias", flat.get("middle_generation_out_proj_b.weight"))
        return {**ours, "bias": rows(bias)}
    factors = {"generation_shared_w1": "down_a", "generation_dense_w": "down_b"}
    factors.update(generation_shared_w2="up_a", generation_out_proj_w="up_b")
    ours = {}
    for place in range(len(method.generators)):
        prefix, start = ("", 0) if place == 0 else ("middle_", place - 1)
        for name, our_name in factors.items():
            count = model.args.phm_n
            parts = [flat[f"{prefix}{name}.{start * count + i}"] for i in range(count)]
            ours[f"generators.{place}.{our_name}"] = torch.stack(parts)
        bias = "generation_dense_b" if place == 0 else f"middle_generation_dense_b.{start}"
        ours[f"generators.{place}.hidden_bias"] = flat[bias]
    bias = flat["generation_out_proj_b.weight"]
    if "middle_generation_out_proj_b.weight" in flat:
        bias = torch.cat([bias, flat["middle_generation_out_proj_b.weight"]])
    ours["bias"] = rows(bias)
    for option, name, our_name in (
        ("generator_residual", "residual_layer_norm", "residual_layer_norm"),
        ("generator_layer_norm", "generator_layer_norm", "prompt_layer_norm"),
    ):
        if getattr(model.args, option):
            for part in ("weight", "bias"):
                ours[f"{our_name}.{part}"] = flat[f"{name}.{part}"]
    return ours


def our_state(theirs: dict[str, Tensor], model) -> dict[str, Tensor]:
    """A whole released state dict under our names; fairseq itself renames emb_layer_norm."""
    layers = re.compile(r"^encoder\.(sentence_encoder\.(layers|emb\w+)\.|sentence_encoder\.embed|lm_head)")
    state = {name: value for name, value in theirs.items() if layers.match(name) and STRAY not in name}
    state.update({name: value for name, value in theirs.items() if name.startswith("classification_heads.")})
    state.update({f"method.{name}": value for name, value in _method_tensors(theirs, model).items()})
    return state


def our_gradients(theirs: dict[str, Tensor], model) -> dict[str, Tensor]:
    """Gradients of method and head under our names."""
    heads = {name: value for name, value in theirs.items() if name.startswith("classification_heads.")}
    return {**heads, **{f"method.{n}": g for n, g in _method_tensors(theirs, model).items()}}
