"""Whole checkpoints whose options and records are of a stranger's making: of other types, or code."""

from __future__ import annotations

import argparse
import os
from random import Random
from typing import Any

from .values import CANARY, CODE, STRANGE, put_somewhere

State = dict[str, Any]
# Whatever fairseq builds from a name, and options of theirs that it evaluates.
NAMES = {
    "model": ("fconv", "fconv_self_att", "fconv_lm", "lightconv", "transformer", "roberta", "transformer_lm"),
    "task": ("sentence_prediction", "translation", "language_modeling", "masked_lm", "dummy_lm"),
    "criterion": ("ctc", "cross_entropy", "sentence_ranking", "adaptive_loss", "wav2vec"),
    "optimizer": ("adamax", "adafactor", "lamb", "cpu_adam", "composite", "nag"),
    "lr_scheduler": ("manual", "triangular", "cosine", "tri_stage", "step", "pass_through"),
}
EVALUATED = (
    *("encoder_layers", "decoder_layers", "decoder_attention", "encoder_attention", "character_filters"),
    *("adam_betas", "adamax_betas", "adafactor_eps", "lamb_betas", "update_freq", "lr", "wer_args", "update_freq2lr"),
    *(
        "encoder_xformers_att_config",
        "decoder_xformers_att_config",
        "conv_feature_layers",
        "pretrained",
        "self_attention",
        "project_input",
        "decoder_conv_dim",
        "epoch2lr",
    ),
)


LAYERS = "[(16, 3)] * 2"
# Models with what they need to be built as far as the option that is evaluated, here None.
RECIPES = (
    ("fconv", {"encoder_layers": None}),
    ("fconv", {"encoder_layers": LAYERS, "decoder_layers": None}),
    ("fconv_self_att", {"encoder_layers": None}),
    ("transformer", {"encoder_xformers_att_config": None}),
    ("roberta", {"encoder_xformers_att_config": None}),
    ("roberta_idpg", {"encoder_xformers_att_config": None}),
)


def options(state: State) -> dict[str, Any]:
    """The configuration that the file keeps, in either of fairseq's forms."""
    return state["cfg"] if state.get("cfg") else vars(state["args"])


def option_strange(state: State, draw: Random) -> str:
    """None is left out: many options may have no value."""
    return put_somewhere({name: options(state)[name] for name in _read(state)}, draw, STRANGE[1:])


def option_code(state: State, draw: Random) -> str:
    return put_somewhere(options(state), draw, CODE)


def _read(state: State) -> list[str]:
    """The parts of a configuration that anything but a training with it reads."""
    found = options(state)
    return [name for name in ("model", "task", "criterion") if name in found] or list(found)


def _attack(draw: Random) -> tuple[dict[str, str], dict[str, str]]:
    """({part: another name}, options that hold code): a recipe, or any names with all that fairseq evaluates."""
    code = draw.choice(CODE)
    if draw.random() < 0.5:
        model, evaluated = draw.choice(RECIPES)
        names = {"model": model, "task": draw.choice(["sentence_prediction", "sentence_prediction_idpg"])}
        return names, {name: code if value is None else value for name, value in evaluated.items()}
    chance = {"model": 0.6, "task": 0.5}
    names = {part: draw.choice(choice) for part, choice in NAMES.items() if draw.random() < chance.get(part, 0.1)}
    return names, dict.fromkeys(EVALUATED, code)


def attack(state: State, draw: Random) -> str:
    """Another model, task ..., or ours, with options that are code wherever fairseq evaluates them."""
    names, code = _attack(draw)
    found = options(state)
    if state.get("cfg"):
        for part in {"model", *names}:
            named = {"_name": names[part], "arch": names[part]} if part in names else {}
            kept = found[part] if isinstance(found.get(part), dict) and draw.random() < 0.7 else {}
            found[part] = {**kept, **code, **named}
    else:
        found.update({**code, **{{"model": "arch"}.get(part, part): name for part, name in names.items()}})
    return f"{names}, {code}"


def old_attack(state: State, draw: Random) -> str:
    """The same in fairseq's form of before 2021: one namespace of all options."""
    names, code = _attack(draw)
    both = {**options(state).get("model", {}), **options(state).get("task", {})}
    chosen = {"arch": names.pop("model", "roberta_idpg"), "task": "sentence_prediction_idpg", **names}
    state["args"], state["cfg"] = argparse.Namespace(**{**both, **code, **chosen}), None
    return f"{chosen}, {code}"


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


def sections(state: State) -> dict[str, Any]:
    """What a checkpoint of now keeps besides tensors; empty in one that has lost it."""
    found = state["model"].get("_extra_state") if isinstance(state.get("model"), dict) else None
    return found if isinstance(found, dict) else {}


def section_changed(state: State, draw: Random) -> str:
    """Another value in one of them, or two names exchanged."""
    found = sections(state) or {"none": None}
    lists = [value for part in found.values() if isinstance(part, dict) for value in part.values()]
    lists = [value for value in lists if isinstance(value, list) and len(value) > 1]
    if lists and draw.random() < 0.5:
        draw.choice(lists).reverse()
        return "names exchanged"
    return put_somewhere(found, draw, (*STRANGE, *CODE))


class Pickled:
    """Unpickles as a call."""

    def __init__(self, *call: Any):
        self.call = call

    def __reduce__(self) -> tuple:
        return self.call


def pickled_code(state: State, draw: Random) -> str:
    call = draw.choice([(open, (CANARY, "w")), (eval, (CODE[0],)), (exec, (CODE[0],)), (os.mkdir, (CANARY,))])
    place = draw.choice([state, state["model"], options(state)])
    place[draw.choice(["more", *list(place)[:3]])] = Pickled(*call)
    return f"a call of {call[0].__name__}"
