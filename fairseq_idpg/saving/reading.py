"""Reading a file that holds tensors: nothing in it is executed, and a damaged one is refused in one line.

Every checkpoint, folder to share and backbone goes through ``read_file``; on its way to fairseq through ``load_state``
too, which checks its configuration and brings old formats up to date.
"""

import math
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.utils import overwrite_args_by_name
from omegaconf import OmegaConf
from torch import Tensor

from ..errors import InputError
from .configuration import buildable, check_is_roberta, names_ours
from .shared_folder import read_shared, shared_folder
from .tensors import EXTRA_STATE, FINGERPRINT, changed_progress, changed_weights, is_ours
from .torch_files import Damaged, preview, read_saved


def read_file(path: str, option: str, mapped: bool = False, checked: bool = False) -> dict[str, Any]:
    """Return what a checkpoint or a folder to share holds, on the CPU: plain values, and weights under "model".

    ``option`` named the file. ``mapped``: the tensors of a zip archive are read from it when they are needed, and
    processes share their memory. ``checked``: this very file was found whole and finite before. Raise InputError where
    it cannot be read, is damaged or not a checkpoint, or holds what only running code could make.
    """
    try:
        folder = shared_folder(path)
        state = read_shared(folder, f"{option} {path}") if folder else read_saved(path, mapped, checked)
        if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
            raise Damaged("it holds no weights under 'model'")
        for name, value in state["model"].items():
            if not isinstance(name, str) or not isinstance(value, dict if name == EXTRA_STATE else Tensor):
                raise Damaged(f"its {name!s:.60} is not a tensor")
        fingerprint = state["model"].get(FINGERPRINT)
        if fingerprint is not None and (fingerprint.dtype != torch.uint8 or fingerprint.shape != (32,)):
            raise Damaged(f"its {FINGERPRINT} is not 32 bytes")
        if not checked and changed_weights(state["model"]):
            raise Damaged("its weights are not those that were saved: they do not fit the checksum that it carries")
    except Damaged as reason:
        raise InputError(f"{option} {path} is not a fairseq checkpoint ({reason}): give one") from None
    for name, value in ({} if checked else state["model"]).items():
        if isinstance(value, Tensor) and not is_finite(value):
            raise InputError(f"{option} {path}: its {name} holds NaN or infinite numbers: give another checkpoint")
    return state


def load_state(
    path: str, option: str, overrides: dict[str, Any] | None = None, builds: bool = True, read: Any = read_file
) -> dict[str, Any]:
    """Return what fairseq's ``load_checkpoint_to_cpu`` returns, of a file that may be a stranger's.

    ``option`` named the file. ``overrides`` replace values of the configuration, unchecked. ``builds``: whether a model
    is made from it; a training that goes on, or starts from a backbone, reads tensors and progress alone. ``read``: the
    function that reads the file, see ``peft.reader``. Raise InputError as ``read_file`` and ``buildable`` do.
    """
    what = f"{option} {path}"
    state = read(path, option)
    changed = changed_progress(state) if not builds and FINGERPRINT in state["model"] else None
    if changed is not None:
        raise InputError(f"{what} is damaged: its {changed} is not what was saved; give another copy")
    cfg = None
    if builds or names_ours(state) or is_ours(state["model"]):
        cfg = OmegaConf.create(buildable(state, what), flags={"allow_objects": True})
        overwrite_args_by_name(cfg, overrides or {})
    else:
        check_is_roberta(state, what)
    try:
        return checkpoint_utils._upgrade_state_dict({**state, "args": None, "cfg": cfg})
    except (LookupError, TypeError, AttributeError):
        raise InputError(f"{what} does not record how far its training came: give a whole checkpoint") from None


def holds_ours(path: str) -> bool:
    """Return whether a file holds a model of this package, without reading its tensors."""
    try:
        state = preview(path)
        return names_ours(state) or is_ours(state["model"])
    except Exception:  # a damaged file, or one that holds more than data, is left to its own reader
        return False


def is_finite(tensor: Tensor) -> bool:
    """Return whether all numbers are finite; in one pass and without a copy."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    return all(math.isfinite(bound) for bound in torch.aminmax(tensor.detach()))
