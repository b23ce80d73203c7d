"""A folder to share: what was trained, as ``prompt.safetensors``, and ``config.json``, which says what it is.

It is read as the checkpoint that it was made from, and checked as one of a stranger: see ``reading.py``. Neither file
can hold code. The checksum covers both; README.md, the card, is for people alone.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from preprocess.errors import reason_of
from preprocess.readers import distinct

from ..errors import InputError
from ..names import TASK
from .checksum import carry_checksum, digest_of
from .configuration import OUR_MODEL, PATHS, shown
from .record import SECTION
from .tensors import EXTRA_STATE, FINGERPRINT, as_fingerprint

TENSORS, CONFIG, CARD = "prompt.safetensors", "config.json", "README.md"
FORMAT = 1
LARGEST_CONFIG = 10**6  # bytes
DTYPES = {
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool),
}
REMEDY = "give one that python -m fairseq_idpg.export wrote"
# Options that are left out: files of the training, and names that are the same in every folder.
FILES: dict[str, tuple[str, ...]] = {
    "task": ("_name", *PATHS["task"]),
    "model": ("_name", *PATHS["model"]),
    "criterion": (),
}
SECTIONS = tuple(FILES)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _section(value: Any) -> bool:
    return isinstance(value, dict)


def _options(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == set(SECTIONS) and all(map(_section, value.values()))


def _backbone(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"name", "path", "tensors_sha256"}
        and _text(value["name"])
        and is_plain_name(*value["name"].split("/"))
        and value["name"].count("/") == 1
        and (value["path"] is None or _text(value["path"]))
        and _text(value["tensors_sha256"])
        and re.fullmatch("[0-9a-f]{64}", value["tensors_sha256"]) is not None
    )


KEYS: dict[str, Callable[[Any], bool]] = {
    "format": lambda value: type(value) is int,
    "method": _text,
    "data": _section,  # the record, which ``read_record`` checks
    "backbone": _backbone,
    "run": _section,  # scores, seed and the like: nothing is built from it
    "versions": _section,
    "options": _options,  # which ``buildable`` checks
    "checksum": _text,
}


def is_plain_name(*names: str) -> bool:
    """Whether these are names of a file or a folder, and lead nowhere else."""
    return all(name not in ("", ".", "..") and not re.search(r"[/\\\0]", name) for name in names)


def write_shared(folder: Path, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    """Writes both files into ``folder``.

    Args:
        tensors: what was trained, under the names of the checkpoint.
        config: all of ``KEYS`` but the format and the checksum.
    """
    own = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}  # none shares memory
    whole = {"format": FORMAT, **config}
    whole["checksum"] = _checksum(whole, own)
    (folder / TENSORS).write_bytes(save(own, metadata={"format": "pt"}))
    text = json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / CONFIG).write_text(f"{text}\n", encoding="utf-8")


def read_shared(path: str, what: str) -> dict[str, Any]:
    """What a checkpoint would hold of it: "model", "cfg" and no progress of a training.

    The backbone is where the folder says, or a neighbour of the folder by the name that it says.

    Raises:
        InputError: a file is missing, is damaged, or does not belong to the other; ``what`` names the folder.
    """
    folder = Path(path)
    missing = next((name for name in (CONFIG, TENSORS) if not (folder / name).is_file()), None)
    if missing is not None:
        raise InputError(f"{what} is a folder without {missing}: give a checkpoint, or a folder to share")
    config = _read_config(folder / CONFIG, what)
    tensors = _read_tensors(folder / TENSORS, what)
    if _checksum(config, tensors) != config["checksum"]:
        raise InputError(f"{what}: {CONFIG} and {TENSORS} are not those that were exported together: {REMEDY}")
    backbone, data = config["backbone"], dict(config["data"])
    data["vocab"] = _found(folder, data.get("vocab"), data.get("vocab"))
    options = {name: {**values, **dict.fromkeys(FILES[name])} for name, values in config["options"].items()}
    options["task"].update(_name=TASK, data=str(folder))
    options["model"].update(
        _name=OUR_MODEL, method=config["method"], backbone=_found(folder, backbone["path"], backbone["name"])
    )
    if options["model"].get("save_full_model") or options["model"].get("no_freeze_backbone"):
        raise InputError(f"{what} says that it holds a whole model, and {TENSORS} is for what is beside one: {REMEDY}")
    if FINGERPRINT in tensors or EXTRA_STATE in tensors:
        raise InputError(f"{what}: {TENSORS} holds {FINGERPRINT} or {EXTRA_STATE}, which are no weights: {REMEDY}")
    model: dict[str, Any] = dict(tensors)
    model[FINGERPRINT] = as_fingerprint(backbone["tensors_sha256"])
    model[EXTRA_STATE] = {SECTION: data}
    carry_checksum(model)
    return {
        "model": model,
        "cfg": options,
        "optimizer_history": [{"optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}],
        "extra_state": {"train_iterator": {"epoch": 0, "iterations_in_epoch": 0}},
    }


def _checksum(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str | None:
    """SHA-256 of both; None of a configuration without end."""
    try:
        return digest_of([{name: part for name, part in config.items() if name != "checksum"}, dict(tensors)])
    except (ValueError, RecursionError):
        return None


def _read_config(path: Path, what: str) -> dict[str, Any]:
    def constant(name: str) -> Any:
        raise ValueError(f"{name} is no number of JSON")

    try:
        if path.stat().st_size > LARGEST_CONFIG:
            raise ValueError(f"it is larger than {LARGEST_CONFIG:,} bytes")
        text = path.read_text(encoding="utf-8")
        config = json.loads(text, parse_constant=constant, object_pairs_hook=distinct)
        json.dumps(config, ensure_ascii=False, allow_nan=False).encode("utf-8")  # a half character, or 1e999
    except OSError as error:
        raise InputError(f"{what}: {path} cannot be read ({error.strerror}): {REMEDY}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what}: {CONFIG} is damaged ({str(error)[:100]}): {REMEDY}") from None
    if not isinstance(config, dict) or type(config.get("format")) is not int:
        raise InputError(f"{what}: {CONFIG} says no format: {REMEDY}")
    if config["format"] != FORMAT:
        raise InputError(
            f"{what}: {CONFIG} is of format {shown(config['format'])}, and this version reads {FORMAT}: "
            "export the checkpoint again, or use the version that wrote it"
        )
    strange = next((name for name in config if name not in KEYS), None)
    if strange is not None:
        raise InputError(f"{what}: {CONFIG} has {shown(strange)}, which this version does not know: {REMEDY}")
    for name, valid in KEYS.items():
        if name not in config:
            raise InputError(f"{what}: {CONFIG} has no {name}: {REMEDY}")
        if not valid(config[name]):
            raise InputError(f"{what}: {CONFIG} is damaged ({name}: {shown(config[name])}): {REMEDY}")
    return config


def _read_tensors(path: Path, what: str) -> dict[str, Tensor]:
    try:
        tensors = load(path.read_bytes())  # not a map of a file that others may change
        strange = {value.dtype for value in tensors.values()} - DTYPES
        if strange:
            raise TypeError(f"numbers of the type {strange.pop()}")
        return tensors
    except Exception as error:  # its own kind, and whatever torch makes of sizes and types
        reason = reason_of(error, 100)
        raise InputError(f"{what}: {TENSORS} is damaged or of another kind ({reason}): {REMEDY}") from None


def _found(folder: Path, recorded: Any, name: Any) -> Any:
    """The recorded place where it is there; else that of the last part of ``name`` beside the folder or in it."""
    places: Iterable[str] = [recorded] if isinstance(recorded, str) else []
    parts, within = name.split("/")[-2:] if isinstance(name, str) else [], os.path.abspath(folder)
    for last in (parts, parts[-1:]):
        if last and is_plain_name(*last):
            places = [*places, *(os.path.join(top, *last) for top in (os.path.dirname(within), within))]
    return next((place for place in places if os.path.exists(place)), next(iter(places), name))
