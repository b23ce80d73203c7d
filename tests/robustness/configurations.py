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
    "model": ("fconv", "fconv_lm", "lightconv", "transformer", "roberta", "transformer_lm", "dummy_model", "nat"),
    "task": ("sentence_prediction", "translation", "language_modeling", "masked_lm", "dummy_lm", "audio_finetuning"),
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
