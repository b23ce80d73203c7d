"""The tensors of a checkpoint: under which names they stand, and whether they are those of a model.

Every error says what differs.
"""

from typing import Any

import torch
from torch import Tensor

from ..backbone.weights import STACK
from ..errors import InputError

FINGERPRINT = "backbone_fingerprint"  # a tensor that every checkpoint of this package holds: of the backbone's tensors
OLD_FINGERPRINT = "backbone_sha256"  # in its place in version 0.1: of the bytes of the backbone's file
EXTRA_STATE = "_extra_state"  # what torch keeps of a module besides tensors
HEADS = "classification_heads."
OUTPUTS = "out_proj.weight"

# What a model may have beyond the numbers in its file: many times these, and what is left out once it is trained.
TIMES, SPARE = 4, 2**26
OBJECTS = 2**12  # numbers whose memory the objects around a tensor take

ANOTHER = "give another checkpoint to --path, --restore-file or --save-dir"

State = dict[str, Tensor]


def as_fingerprint(digest: str) -> Tensor:
    """Return a SHA-256 in hexadecimal as the 32 bytes that checkpoints hold."""
    return torch.frombuffer(bytearray.fromhex(digest), dtype=torch.uint8)


def as_digest(fingerprint: Tensor) -> str:
    """Return the 32 bytes of a fingerprint in hexadecimal."""
    return bytes(fingerprint.tolist()).hex()


def is_ours(model_state: dict[str, Any]) -> bool:
    """Return whether tensors are those of a checkpoint of this package, by the fingerprint of a backbone among them."""
    return FINGERPRINT in model_state or OLD_FINGERPRINT in model_state


def room(state: dict[str, Any]) -> int:
    """Return how many numbers a model may have that is made from these tensors."""
    return SPARE + TIMES * sum(value.numel() for value in state.values() if torch.is_tensor(value))


def check_same_heads(state: State, whole: State) -> None:
    """Raise InputError unless the heads of a checkpoint of this package are those of the model, by name and sizes."""
    theirs, own = heads(state), heads(whole)
    if theirs != own:
        held, wanted = (_named(each, sized=theirs.keys() == own.keys()) for each in (theirs, own))
        raise InputError(
            f"this checkpoint holds {held} but the model has {wanted}: give the options that it was trained with "
            "(--classification-head-name, --num-classes, --predict-with), or, to train for other classes, start from "
            "it with --backbone, or from its prompt with --prompt-init-from"
        )


def heads(state: State) -> dict[str, dict[str, list[int]]]:
    """Return {head: {tensor: shape}} of a state dict."""
    found: dict[str, dict[str, list[int]]] = {}
    for key, value in state.items():
        if key.startswith(HEADS):
            name, _, part = key[len(HEADS) :].partition(".")
            found.setdefault(name, {})[part] = list(value.shape)
    return found


def _named(found: dict[str, dict[str, list[int]]], sized: bool) -> str:
    names = [f"{name:.60}{f' {shapes.get(OUTPUTS)}' if sized else ''}" for name, shapes in sorted(found.items())[:8]]
    return f"the head {', '.join(names)}" if names else "no head"


def take_encoder(state: State, whole: State) -> None:
    """Leave of a checkpoint of fairseq's own, in place, what a model of ours can start from: its encoder and its head.

    Raises:
        InputError: its encoder is incomplete, or has more in it than the model's.
    """
    missing = [key for key in whole if key.startswith(STACK) and key not in state]
    unknown = [key for key in state if key.startswith(STACK) and key not in whole]
    if missing or unknown:
        raise InputError(
            f"this checkpoint's encoder is not that of --arch: {len(missing)} tensors missing, {len(unknown)} too many "
            f"(such as {(missing + unknown)[0]}): {ANOTHER}"
        )
    for key in [key for key in state if key not in whole or not torch.is_tensor(state[key])]:
        del state[key]


def check_shapes(state: State, whole: State) -> None:
    """Raise InputError where a tensor has another shape, or is of another kind of numbers, than the model's."""
    for key, own in whole.items():
        theirs = state.get(key)
        if not torch.is_tensor(own) or theirs is None:
            continue
        kinds = [value.dtype if not value.is_floating_point() else "floating" for value in (theirs, own)]
        if theirs.shape != own.shape or kinds[0] != kinds[1]:
            raise InputError(
                f"this checkpoint's {key} is {list(theirs.shape)} of {theirs.dtype}, but the model's is "
                f"{list(own.shape)} of {own.dtype}: give the options it was trained with, or {ANOTHER}"
            )
