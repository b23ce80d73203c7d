"""The checksums that every checkpoint carries: SHA-256 of its weights, and of what only a resumed training reads.

The zip archive's own CRC-32 tells that the bytes of a file are those that were written; these also tell that the values
are those of the training, whichever tool has copied them into another file since. The weights' own stands among them,
so that every writer has it; the others are made where the trainer writes.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from .tensors import EXTRA_STATE, FINGERPRINT

CHECKSUM = "checksum"  # in the extra state
PROGRESS = ("extra_state", "optimizer_history", "last_optimizer_state")
CHECKSUMS = "checksums"  # of these, by name
PARTS = 10**6  # more would be a file made to take for ever


def checksum(model_state: dict[str, Any]) -> str:
    """Return the SHA-256 of a model's state dict: names, types, shapes and bytes of tensors, and its extra state.

    Tensors of half precision count as the float32 that fairseq writes in their place.
    """
    extra = {name: value for name, value in model_state.get(EXTRA_STATE, {}).items() if name != CHECKSUM}
    return digest_of({**model_state, EXTRA_STATE: extra})


def changed_weights(model_state: dict[str, Any]) -> bool:
    """Return whether weights are not those that were saved.

    A checkpoint of this package carries a checksum; a backbone, or a checkpoint of version 0.1, does not.
    """
    recorded = model_state.get(EXTRA_STATE, {}).get(CHECKSUM)
    if recorded is None:
        return FINGERPRINT in model_state
    return not fits(recorded, checksum, model_state)


def with_progress_checksums(state: dict[str, Any]) -> dict[str, Any]:
    """Return what the trainer is about to write, and the checksums of how far it has come."""
    return {**state, CHECKSUMS: {name: digest_of(state[name]) for name in PROGRESS if name in state}}


def changed_progress(state: dict[str, Any]) -> str | None:
    """Return the part of how far training had come that is not what was saved, if any; one may be taken out whole."""
    recorded = state.get(CHECKSUMS)
    if not isinstance(recorded, dict):
        return CHECKSUMS
    parts = {name: state[name] for name in PROGRESS if state.get(name) is not None}
    return next((name for name, part in parts.items() if not fits(recorded.get(name), digest_of, part)), None)


def fits(recorded: Any, digest: Callable[..., str], *values: Any) -> bool:
    """Return whether the digest of some values is the recorded one; values without end have none."""
    try:
        return recorded == digest(*values)
    except (ValueError, RecursionError):
        return False


def digest_of(value: Any) -> str:
    """Return the SHA-256 of nested dictionaries and lists of tensors and plain values.

    Raises:
        ValueError: it has too many parts.
        RecursionError: it is nested too deeply.
    """
    digest = hashlib.sha256()
    for part in _parts(value, iter(range(PARTS))):
        digest.update(part)
    return digest.hexdigest()


def carry_checksum(model_state: dict[str, Any]) -> None:
    """Put the checksum into a state dict, in place."""
    model_state[EXTRA_STATE] = {**model_state.get(EXTRA_STATE, {}), CHECKSUM: checksum(model_state)}


def tensors_digest(tensors: dict[str, Tensor]) -> str:
    """Return the SHA-256 of names, types, shapes and bytes, types as they are."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        for part in _tensor(name, tensors[name]):
            digest.update(part)
    return digest.hexdigest()


def _parts(value: Any, budget: Iterator[int], name: str = "") -> Iterator[Any]:
    """Yield a value as bytes that no other value has.

    Raises:
        ValueError: it has too many parts.
    """
    if next(budget, None) is None:
        raise ValueError("too many parts")
    if isinstance(value, Tensor):
        yield from _tensor(name, value.float() if value.dtype in (torch.float16, torch.bfloat16) else value)
        return
    if isinstance(value, dict):
        named = sorted(((repr(key), part) for key, part in value.items()), key=lambda item: item[0])
    elif isinstance(value, (list, tuple)):
        named = [("", part) for part in value]
    else:
        yield repr((name, value)).encode()
        return
    kind = "dict" if isinstance(value, dict) else "list"  # fairseq makes plain ones of their subclasses
    yield repr((name, kind, len(named))).encode()
    for key, part in named:
        yield from _parts(part, budget, key)


def _tensor(name: str, value: Tensor) -> Iterator[Any]:
    """Yield a description of known length first, so that no two lists of tensors give the same bytes."""
    yield repr((name, str(value.dtype), list(value.shape))).encode()
    if value.numel():
        yield value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
