"""Checkpoints and backbones that are whole files and wrong: read, changed in one place, saved again by torch.save."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Callable

import torch

from . import configurations
from .configurations import State
from .damage import Damage
from .values import STRANGE

Change = Callable[[State, Random], str]
HEAD = "classification_heads."
DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64)


def resaved(change: Change, zipped: bool = True) -> Damage:
    def damage(path: Path, draw: Random) -> str:
        state = torch.load(path, map_location="cpu", weights_only=False)  # our own
        where = change(state, draw)
        torch.save(state, path, _use_new_zipfile_serialization=zipped)
        return where

    return damage


# --- tensors -------------------------------------------------------------------------------------


def tensors(state: State) -> list[str]:
    """Names of those that decide the answer: the LM head of a backbone does not."""
    return [name for name, value in state["model"].items() if torch.is_tensor(value) and "lm_head" not in name]


def floats(state: State) -> list[str]:
    names = [name for name in tensors(state) if state["model"][name].is_floating_point()]
    return [name for name in names if not name.endswith("version")]


def tensor_gone(state: State, draw: Random) -> str:
    name = draw.choice(tensors(state))
    del state["model"][name]
    return f"without {name}"


def head_gone(state: State, draw: Random) -> str:
    gone = [name for name in state["model"] if name.startswith(HEAD)]
    for name in gone:
        del state["model"][name]
    return f"without {len(gone)} tensors of the head"


def tensor_resized(state: State, draw: Random) -> str:
    name = draw.choice([name for name in floats(state) if state["model"][name].dim()])
    value, axis = state["model"][name], draw.randrange(state["model"][name].dim())
    more = draw.choice([-1, 1])
    size = max(0, value.size(axis) + more)
    index = torch.arange(size).clamp(max=value.size(axis) - 1)
    state["model"][name] = value.index_select(axis, index)
    return f"{name} with size {size} of axis {axis}"


def head_resized(state: State, draw: Random) -> str:
    classes = draw.choice([1, 3, 5])
    for name in [name for name in state["model"] if name.startswith(HEAD) and "out_proj" in name]:
        value = state["model"][name]
        state["model"][name] = value[torch.arange(classes) % len(value)]
    return f"{classes} classes"


def not_finite(state: State, draw: Random) -> str:
    name = draw.choice(floats(state))
    value = state["model"][name] = state["model"][name].clone()
    at, bad = draw.randrange(value.numel()), draw.choice([math.nan, math.inf, -math.inf])
    value.view(-1)[at] = bad
    return f"{name}[{at}] = {bad}"


def value_changed(state: State, draw: Random) -> str:
    name = draw.choice(floats(state))
    value = state["model"][name] = state["model"][name].clone()
    at = draw.randrange(value.numel())
    value.view(-1)[at] += draw.choice([0.5, -0.25, 1e-3])
    return f"{name}[{at}]"


def tensors_swapped(state: State, draw: Random) -> str:
    """Two of as many values, each in the other's shape."""
    model, alike = state["model"], {}
    for name in floats(state):
        alike.setdefault(model[name].numel(), []).append(name)
    one, two = draw.sample(draw.choice([names for names in alike.values() if len(names) > 1]), 2)
    model[one], model[two] = model[two].view_as(model[one]), model[one].view_as(model[two])
    return f"{one} and {two}"


def other_dtype(state: State, draw: Random) -> str:
    name, dtype = draw.choice(floats(state)), draw.choice(DTYPES)
    state["model"][name] = state["model"][name].to(dtype)
    return f"{name} as {dtype}"


def no_tensor(state: State, draw: Random) -> str:
    name = draw.choice(tensors(state))
    value = draw.choice([*STRANGE, state["model"][name].tolist(), state["model"][name].to_sparse()])
    state["model"][name] = value
    return f"{name} = {type(value).__name__}"


def tensor_added(state: State, draw: Random) -> str:
    name = draw.choice(["encoder.more", "method.more", f"{HEAD}another.out_proj.weight", "", "a.b.c", "_extra"])
    state["model"][name] = torch.ones(2, 16)
    return f"with {name!r}"


# --- what is done to which file ------------------------------------------------------------------


def unsigned(change: Change) -> Change:
    """The same, and half of the files lose their checksum as well: older versions wrote none."""

    def both(state: State, draw: Random) -> str:
        where, sections = change(state, draw), configurations.sections(state)
        if draw.random() < 0.5 and "checksum" in sections:
            del sections["checksum"]
            where += ", without its checksum"
        return where

    return both


def of_tensors(change: Change) -> Change:
    """The same in a file that holds nothing but tensors."""
    return lambda state, draw: change({"model": state}, draw)


TENSORS: dict[str, Change] = {
    "tensor gone": tensor_gone,
    "tensor resized": tensor_resized,
    "not finite": not_finite,
    "value changed": value_changed,
    "tensors swapped": tensors_swapped,
    "other dtype": other_dtype,
    "no tensor": no_tensor,
    "tensor added": tensor_added,
}
OPTIONS: dict[str, Change] = {
    "part strange": configurations.part_strange,
    "option strange": configurations.option_strange,
    "option code": configurations.option_code,
    "attack": configurations.attack,
    "pickled code": configurations.pickled_code,
}
OURS: dict[str, Change] = {
    "head gone": head_gone,
    "head resized": head_resized,
    "old attack": configurations.old_attack,
}
BACKBONE = {name: resaved(change) for name, change in {**TENSORS, **OPTIONS}.items()}
LEGACY = {name: resaved(change, zipped=False) for name, change in {**TENSORS, **OPTIONS}.items()}
FLAT = {name: resaved(of_tensors(change)) for name, change in TENSORS.items()}
CHECKPOINT = {name: resaved(unsigned(change)) for name, change in {**TENSORS, **OPTIONS, **OURS}.items()}
CHECKPOINT["section"] = resaved(configurations.section_changed)
RESUMED = {**CHECKPOINT, "history strange": resaved(unsigned(configurations.history_strange))}
