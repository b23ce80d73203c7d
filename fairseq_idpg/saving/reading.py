"""Reading a file that holds tensors: nothing in it is executed, and a damaged one is refused in one line.

Every checkpoint, folder to share and backbone that this package opens goes through ``read_file``, and on to fairseq,
with its configuration checked and old formats brought up, through ``load_state``.
"""

import math
import os
import pickle
import re
import zipfile
from typing import Any, Dict, Iterator, Optional

import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.utils import overwrite_args_by_name
from omegaconf import OmegaConf
from torch import Tensor

from preprocess.readers import is_text

from ..errors import InputError
from .checksum import CHECKSUM, changed_progress, checksum
from .configuration import buildable, check_is_roberta, names_ours
from .shared_folder import read_shared
from .tensors import EXTRA_STATE, FINGERPRINT, is_ours

ARCHIVE = b"PK\x03\x04"
DTYPES = {
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool),
}


class Damaged(Exception):
    """Why a file cannot be read, in a few words."""


def read_file(path: str, option: str, mapped: bool = False, checked: bool = False) -> Dict[str, Any]:
    """What a checkpoint or a folder to share holds, on the CPU: plain values, tensors and options, with the weights
    under "model".

    Args:
        option: what named the file, for errors.
        mapped: the tensors of a zip archive are read from it when they are needed, and processes share their memory;
            what is written to them stays in this process.
        checked: this very file was found whole and finite before, so that only its form is looked at.

    Raises:
        InputError: it cannot be read, is damaged, is no checkpoint, or holds what only running code could make.
    """
    try:
        if os.path.isdir(path):
            state = read_shared(path, f"{option} {path}")
        else:
            archive = _check_bytes(path, checked)
            state = _load(path, mapped and archive)
        _check_weights(state)
        if not checked:
            _check_checksum(state["model"])
    except Damaged as reason:
        raise InputError(f"{option} {path} is not a fairseq checkpoint ({reason}): give one") from None
    for name, value in ({} if checked else state["model"]).items():
        if isinstance(value, Tensor) and not is_finite(value):
            raise InputError(f"{option} {path}: its {name} holds NaN or infinite numbers: give another checkpoint")
    return state


def load_state(
    path: str, option: str, overrides: Optional[Dict[str, Any]] = None, builds: bool = True
) -> Dict[str, Any]:
    """In the place of fairseq's ``load_checkpoint_to_cpu``: the same dictionary, of a file that may be a stranger's.

    Args:
        option: what named the file, for errors.
        overrides: values that replace those of the configuration; the caller's own, so not checked.
        builds: whether a model is made from it. Where training goes on, or starts from a backbone, only its tensors
            and its progress are read.

    Raises:
        InputError: see ``read_file`` and ``buildable``.
    """
    what = f"{option} {path}"
    if not builds and os.path.isdir(path):
        raise InputError(f"{what} is a folder, and no training can go on from one: give the checkpoint")
    state = read_file(path, option)
    if not builds and FINGERPRINT in state["model"]:  # others carry no checksums
        _check_progress(state, what)
    if builds or names_ours(state) or is_ours(state["model"]):
        cfg = OmegaConf.create(buildable(state, what), flags={"allow_objects": True})
        if overrides is not None:
            overwrite_args_by_name(cfg, overrides)
    else:
        check_is_roberta(state, what)
        cfg = None
    try:
        return checkpoint_utils._upgrade_state_dict({**state, "args": None, "cfg": cfg})
    except (LookupError, TypeError, AttributeError):
        raise InputError(f"{what} does not record how far its training came: give a whole checkpoint") from None


def check_is_there(path: str, what: str) -> None:
    """Raises InputError where there is neither a file nor a folder."""
    if not os.path.isfile(path) and not os.path.isdir(path):
        raise InputError(f"{what} is not a file: give a checkpoint that fairseq-train saved, or a folder to share")


def is_archive(path: str) -> bool:
    """Whether it is a file that begins as a zip archive does, which is what torch saves."""
    if not os.path.isfile(path):  # a pipe would be waited for
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(ARCHIVE)) == ARCHIVE
    except OSError:
        return False


def is_finite(tensor: Tensor) -> bool:
    """Whether all numbers are; in one pass and without a copy."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    return all(math.isfinite(bound) for bound in torch.aminmax(tensor.detach()))


def _check_bytes(path: str, checked: bool) -> bool:
    """What the file itself tells, and whether it is a zip archive: torch does not compare the CRC-32 of its records."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise Damaged("it is no file")
        with open(path, "rb") as file:
            start = file.read(len(ARCHIVE))
            if not start:
                raise Damaged("it is empty")
            if start == ARCHIVE:
                _check_records(path, os.fstat(file.fileno()).st_size, checked)
            return start == ARCHIVE
    except OSError as error:
        raise Damaged(error.strerror or "it cannot be read") from None


def _check_records(path: str, size: int, checked: bool) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            records = archive.infolist()
            packed = any(record.file_size != record.compress_size for record in records)
            if packed or sum(record.file_size for record in records) > size:
                raise Damaged("its records say that they are larger than the file")
            if len({record.filename for record in records}) < len(records):
                raise Damaged("it holds a record twice")
            damaged = None if checked else archive.testzip()
    except Damaged:
        raise
    except Exception:  # whatever zipfile and its decoders make of bytes that are no archive
        raise Damaged("it is damaged or cut short") from None
    if damaged is not None:
        raise Damaged(f"it is damaged: the bytes of {damaged} do not fit their CRC-32")


def _load(path: str, mapped: bool) -> Dict[str, Any]:
    """torch's reader with its allow-list on. Its own messages are not passed on: some advise to switch the list off."""
    try:
        mapped = mapped and is_text(path)  # torch maps no other
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except pickle.UnpicklingError as error:
        objects = re.search(r"Unsupported (?:global: GLOBAL|class|operand) (\S+)", str(error))
        raise Damaged(f"it holds {objects.group(1)}, which is no data" if objects else "it is damaged") from None
    except OSError as error:
        raise Damaged(error.strerror or "it cannot be read") from None
    except Exception:  # bytes that are no pickle end in errors of every kind
        raise Damaged("it is damaged or of another kind") from None


def _check_weights(state: Any) -> None:
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise Damaged("it holds no weights under 'model'")
    for name, value in state["model"].items():
        if not isinstance(name, str):
            raise Damaged("its tensors have no names")
        if name != EXTRA_STATE and not isinstance(value, Tensor):
            raise Damaged(f"its {name} is no tensor")
        if name == EXTRA_STATE and not isinstance(value, dict):
            raise Damaged("it keeps nothing by names")
        if name == FINGERPRINT and (value.dtype != torch.uint8 or value.shape != (32,)):
            raise Damaged(f"its {name} is no fingerprint")
    for tensor in _tensors(state):
        if tensor.dtype not in DTYPES:
            raise Damaged(f"it holds numbers of the type {tensor.dtype}")
        if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
            raise Damaged("it holds a tensor without numbers of its own")
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise Damaged("it holds a tensor that is larger than its numbers")


def _check_checksum(model_state: Dict[str, Any]) -> None:
    """A checkpoint of this package carries one; a backbone, or a checkpoint of version 0.1, does not."""
    recorded = model_state.get(EXTRA_STATE, {}).get(CHECKSUM)
    if recorded is None and FINGERPRINT not in model_state:
        return
    try:
        fits = checksum(model_state) == recorded
    except (ValueError, RecursionError):
        fits = False
    if not fits:
        raise Damaged("its weights are not those that were saved: they do not fit the checksum that it carries")


def _check_progress(state: Dict[str, Any], what: str) -> None:
    try:
        changed = changed_progress(state)
    except (ValueError, RecursionError):
        changed = "training's progress"
    if changed is not None:
        raise InputError(f"{what} is damaged: its {changed} is not what was saved; give another copy")


def _tensors(state: Any) -> Iterator[Tensor]:
    """Every tensor, however deep; a value that holds itself is visited once."""
    waiting, seen = [state], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (dict, list, tuple)) and id(value) not in seen:
            seen.add(id(value))
            waiting.extend(value.values() if isinstance(value, dict) else value)
