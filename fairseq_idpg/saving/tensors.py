"""The tensors of a checkpoint: their names, whether a model takes them, and the SHA-256 that every checkpoint carries.

The zip archive's CRC-32 tells that a file has the bytes that were written. A checksum tells that it has the values of
the training, whichever tool has copied them since. The checksum of the weights is stored among them, so every writer
keeps it. Checksums of the progress, which only a resumed training reads, are made where the trainer writes.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from ..backbone.weights import STACK
from ..errors import InputError

FINGERPRINT = "backbone_fingerprint"  # in every checkpoint of this package: SHA-256 of the backbone's tensors
OLD_FINGERPRINT = "backbone_sha256"  # in version 0.1: SHA-256 of the backbone's file
EXTRA_STATE = "_extra_state"  # what torch keeps of a module besides tensors
HEADS = "classification_heads."
OUTPUTS = "out_proj.weight"

CHECKSUM = "checksum"  # in the extra state
PROGRESS = ("extra_state", "optimizer_history", "last_optimizer_state")
CHECKSUMS = "checksums"  # of these, by name
PARTS = 10**6  # of a value: only a file that is made to take for ever has more

TIMES, SPARE = 4, 2**26  # a model may have TIMES the numbers of its file, plus SPARE
OBJECTS = 2**12  # numbers that fit into the memory of the objects around a tensor

ANOTHER = "give another checkpoint to --path, --restore-file or --save-dir"

State = dict[str, Tensor]


def as_fingerprint(digest: str) -> Tensor:
    """Return the 32 bytes that checkpoints hold of a SHA-256 in hexadecimal."""
    return torch.frombuffer(bytearray.fromhex(digest), dtype=torch.uint8)


def as_digest(fingerprint: Tensor) -> str:
    return bytes(fingerprint.tolist()).hex()


def is_ours(model_state: dict[str, Any]) -> bool:
    """Return whether tensors are those of a checkpoint of this package: they include a fingerprint."""
    return FINGERPRINT in model_state or OLD_FINGERPRINT in model_state


def checksum(model_state: dict[str, Any]) -> str:
    """Return the SHA-256 of a model's state dict; half precision counts as the float32 that fairseq writes."""
    extra = {name: value for name, value in model_state.get(EXTRA_STATE, {}).items() if name != CHECKSUM}
    return digest_of({**model_state, EXTRA_STATE: extra})


def carry_checksum(model_state: dict[str, Any]) -> None:
    model_state[EXTRA_STATE] = {**model_state.get(EXTRA_STATE, {}), CHECKSUM: checksum(model_state)}


def changed_weights(model_state: dict[str, Any]) -> bool:
    """Return whether weights differ from those that were saved; backbones and version 0.1 carry no checksum."""
    recorded = model_state.get(EXTRA_STATE, {}).get(CHECKSUM)
    return FINGERPRINT in model_state if recorded is None else not has_digest(recorded, checksum, model_state)


def with_progress_checksums(state: dict[str, Any]) -> dict[str, Any]:
    """Return what the trainer is about to write, with the checksums of its progress."""
    return {**state, CHECKSUMS: {name: digest_of(state[name]) for name in PROGRESS if name in state}}


def changed_progress(state: dict[str, Any]) -> str | None:
    """Return the first part of the progress that is not what was saved, if any; a part may have been removed."""
    recorded = state.get(CHECKSUMS)
    if not isinstance(recorded, dict):
        return CHECKSUMS
    parts = {name: state[name] for name in PROGRESS if state.get(name) is not None}
    return next((name for name, part in parts.items() if not has_digest(recorded.get(name), digest_of, part)), None)


def has_digest(recorded: Any, digest: Callable[..., str], *values: Any) -> bool:
    """Return whether the digest of some values is the recorded one; values that are too deep or too many have none."""
    try:
        return recorded == digest(*values)
    except (ValueError, RecursionError):
        return False


def digest_of(value: Any) -> str:
    """Return the SHA-256 of nested values; raise ValueError for too many, RecursionError for too deep ones."""
    return _sha256(_parts(value, iter(range(PARTS))))


def tensors_digest(tensors: State) -> str:
    """Return the SHA-256 of names, types, shapes and bytes, types as they are."""
    return _sha256(part for name in sorted(tensors) for part in _tensor(name, tensors[name]))


def _sha256(parts: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _parts(value: Any, budget: Iterator[int], name: str = "") -> Iterator[Any]:
    """Yield bytes that tell a value from every other one."""
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
    kind = "dict" if isinstance(value, dict) else "list"  # fairseq saves subclasses as these
    yield repr((name, kind, len(named))).encode()
    for key, part in named:
        yield from _parts(part, budget, key)


def _tensor(name: str, value: Tensor) -> Iterator[Any]:
    """Yield name, type and shape first, so that different tensors never give the same bytes."""
    yield repr((name, str(value.dtype), list(value.shape))).encode()
    if value.numel():
        yield value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def room(state: dict[str, Any]) -> int:
    """Return how many numbers a model of these tensors may have."""
    return SPARE + TIMES * sum(value.numel() for value in state.values() if torch.is_tensor(value))


def check_same_heads(state: State, whole: State) -> None:
    """Raise InputError unless the heads of a checkpoint of this package are those of the model, by name and sizes."""
    theirs, own = ({n: list(v.shape) for n, v in held.items() if n.startswith(HEADS)} for held in (state, whole))
    if theirs != own:
        raise InputError(
            f"this checkpoint holds {_heads(theirs)} but the model has {_heads(own)}: give the options that it was "
            "trained with (--classification-head-name, --num-classes, --predict-with), or, to train for other classes, "
            "start from it with --backbone, or from its prompt with --prompt-init-from"
        )


def _heads(shapes: dict[str, list[int]]) -> str:
    names = sorted({key[len(HEADS) :].partition(".")[0] for key in shapes})[:8]
    heads = [f"{name:.60} {shapes.get(f'{HEADS}{name}.{OUTPUTS}', '')}".rstrip() for name in names]
    return f"the head {', '.join(heads)}" if heads else "no head"


def take_encoder(state: State, whole: State) -> None:
    """Keep the encoder and head that a model can start from; raise InputError where the encoder is another one."""
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
        if theirs.shape != own.shape or theirs.is_floating_point() != own.is_floating_point():
            raise InputError(
                f"this checkpoint's {key} is {list(theirs.shape)} of {theirs.dtype}, but the model's is "
                f"{list(own.shape)} of {own.dtype}: give the options it was trained with, or {ANOTHER}"
            )
