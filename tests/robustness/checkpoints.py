"""Checkpoints and backbones that are whole files and wrong: read, changed in one place, saved again by torch.save."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from random import Random
from typing import Any, Callable, Iterator

import torch

from .damage import Damage

State = dict[str, Any]
Change = Callable[[State, Random], str]
HEAD = "classification_heads."
CANARY = "canary"  # made in the folder of the case by whatever runs code
CODE = (
    f"open('{CANARY}','w')",
    f"[open('{CANARY}','w')]",
    f"(open('{CANARY}','w'), 0.9)",
    f"[(16, 3)] * (1 if open('{CANARY}','w') else 1)",
    f"__import__('pathlib').Path('{CANARY}').touch()",
    f"{{'a': open('{CANARY}','w')}}",
)
# Of other types than any option has, or beyond its sense. No value that another run could really have had.
STRANGE = (None, "text", "", -1, 2**70, 1e300, math.nan, math.inf, [], [[]], {}, {"a": 1}, ["a"], b"bytes", True)
DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64)
# Whatever fairseq builds from a name, and options of theirs that it evaluates.
NAMES = {
    "model": ("fconv", "fconv_lm", "lightconv", "transformer", "roberta", "transformer_lm", "dummy_model", "nat"),
    "task": ("sentence_prediction", "translation", "language_modeling", "masked_lm", "dummy_lm", "audio_finetuning"),
    "criterion": ("ctc", "cross_entropy", "sentence_ranking", "adaptive_loss", "wav2vec"),
    "optimizer": ("adamax", "adafactor", "lamb", "cpu_adam", "composite", "nag"),
    "lr_scheduler": ("manual", "triangular", "cosine", "tri_stage", "step", "pass_through"),
}
EVALUATED = (
    *("encoder_layers", "decoder_layers", "decoder_attention", "encoder_attention", "character_filters"),
    *("adam_betas", "adamax_betas", "adafactor_eps", "lamb_betas", "update_freq", "lr", "wer_args", "update_freq2lr"),
    *("conv_feature_layers", "pretrained", "self_attention", "project_input", "decoder_conv_dim", "epoch2lr"),
)


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


# --- options and other values --------------------------------------------------------------------


def leaves(tree: Any, path: tuple = ()) -> Iterator[tuple]:
    """Paths of all values in nested dicts and lists that are no such container, or empty ones."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, (list, tuple)) else ()
    found = False
    for key, value in items:
        found = True
        yield from leaves(value, (*path, key))
    if not found and path:
        yield path


def put(tree: Any, path: tuple, value: Any) -> None:
    for key in path[:-1]:
        tree = tree[key]
    if isinstance(tree, (dict, list)):
        tree[path[-1]] = value


def put_somewhere(tree: Any, draw: Random, values: tuple) -> str:
    path, value = draw.choice(list(leaves(tree))), draw.choice(values)
    put(tree, path, value)
    return f"{'.'.join(map(str, path))} = {str(value)[:40]!r}"


def options(state: State) -> dict[str, Any]:
    """The configuration that the file keeps, in either of fairseq's forms."""
    return state["cfg"] if state.get("cfg") else vars(state["args"])


def option_strange(state: State, draw: Random) -> str:
    return put_somewhere({name: options(state)[name] for name in _read(state)}, draw, STRANGE)


def option_code(state: State, draw: Random) -> str:
    return put_somewhere(options(state), draw, CODE)


def _read(state: State) -> list[str]:
    """The parts of a configuration that anything but a training with it reads."""
    found = options(state)
    return [name for name in ("model", "task", "criterion") if name in found] or list(found)


def other_name(state: State, draw: Random) -> str:
    """Another model, task ... whose options are code wherever fairseq evaluates them."""
    part, code = draw.choice(list(NAMES)), draw.choice(CODE)
    name = draw.choice(NAMES[part])
    evaluated = dict.fromkeys(EVALUATED, code)
    if not state.get("cfg"):
        vars(state["args"]).update({**evaluated, {"model": "arch"}.get(part, part): name})
        return f"{part} {name}, {code}"
    found = state["cfg"][part] if isinstance(state["cfg"].get(part), dict) else {}
    state["cfg"][part] = {**found, "_name": name, "arch": name, **evaluated}
    if draw.random() < 0.5:
        state["cfg"]["task"]["_name"] = "sentence_prediction"
    return f"{part} {name}, {code}"


def old_options(state: State, draw: Random) -> str:
    """fairseq's form of before 2021: one namespace of options, here with code in them."""
    both = {**options(state).get("model", {}), **options(state).get("task", {})}
    names = {part: draw.choice(choice) for part, choice in NAMES.items() if draw.random() < 0.6}
    code = draw.choice(CODE)
    chosen = {"arch": names.pop("model", "roberta_idpg"), "task": "sentence_prediction_idpg", **names}
    state["args"], state["cfg"] = argparse.Namespace(**{**both, **dict.fromkeys(EVALUATED, code), **chosen}), None
    return f"arch {chosen['arch']}, task {chosen['task']}, {code}"


def part_strange(state: State, draw: Random) -> str:
    """A whole part of the file, or of its configuration."""
    parts = [(state, name) for name in state if name not in ("task_state", "args", "criterion")]
    if isinstance(state.get("cfg"), dict):
        parts += [(state["cfg"], name) for name in ("model", "task", "criterion") if name in state["cfg"]]
    parent, name = draw.choice(parts)
    if draw.random() < 0.5:
        del parent[name]
        return f"without {name}"
    parent[name] = draw.choice(STRANGE)
    return f"{name} = {parent[name]!r}"


def history_strange(state: State, draw: Random) -> str:
    """What only a resumed training reads."""
    tree = {name: state[name] for name in ("extra_state", "optimizer_history", "last_optimizer_state") if name in state}
    return put_somewhere(tree, draw, (*STRANGE, *CODE))


def section_changed(state: State, draw: Random) -> str:
    """What a checkpoint keeps besides tensors: another value, or two names exchanged."""
    sections = state["model"].get("_extra_state") or {"none": None}
    lists = [value for part in sections.values() if isinstance(part, dict) for value in part.values()]
    lists = [value for value in lists if isinstance(value, list) and len(value) > 1]
    if lists and draw.random() < 0.5:
        draw.choice(lists).reverse()
        return "names exchanged"
    return put_somewhere(sections, draw, (*STRANGE, *CODE))


def of_tensors(change: Change) -> Change:
    """The same in a file that holds nothing but tensors."""
    return lambda state, draw: change({"model": state}, draw)


class Pickled:
    """Unpickles as a call."""

    def __init__(self, *call: Any):
        self.call = call

    def __reduce__(self) -> tuple:
        return self.call


def pickled_code(state: State, draw: Random) -> str:
    import os

    call = draw.choice([(open, (CANARY, "w")), (eval, (CODE[0],)), (exec, (CODE[0],)), (os.mkdir, (CANARY,))])
    place = draw.choice([state, state["model"], options(state)])
    place[draw.choice(["more", *list(place)[:3]])] = Pickled(*call)
    return f"a call of {call[0].__name__}"


TENSORS: dict[str, Change] = {
    "tensor gone": tensor_gone,
    "tensor resized": tensor_resized,
    "not finite": not_finite,
    "value changed": value_changed,
    "tensors swapped": tensors_swapped,
    "other dtype": other_dtype,
    "no tensor": no_tensor,
    "tensor added": tensor_added,
    "part strange": part_strange,
    "option strange": option_strange,
    "option code": option_code,
    "other name": other_name,
    "pickled code": pickled_code,
}
OF_TENSORS = (
    "tensor gone",
    "tensor resized",
    "not finite",
    "tensors swapped",
    "other dtype",
    "no tensor",
    "tensor added",
)
BACKBONE = {name: resaved(change) for name, change in TENSORS.items()}
LEGACY = {name: resaved(change, zipped=False) for name, change in TENSORS.items()}
MORE = {"head gone": head_gone, "head resized": head_resized, "old options": old_options, "section": section_changed}
FLAT = {name: resaved(of_tensors(TENSORS[name])) for name in OF_TENSORS}
CHECKPOINT = {**BACKBONE, **{name: resaved(change) for name, change in MORE.items()}}
RESUMED = {**CHECKPOINT, "history strange": resaved(history_strange)}
