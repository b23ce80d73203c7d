"""From a checkpoint's file to what fairseq loads: read safely, its configuration checked, old formats brought up."""

from typing import Any, Dict, Optional

from fairseq import checkpoint_utils
from fairseq.dataclass.utils import overwrite_args_by_name
from omegaconf import OmegaConf

from ..errors import InputError
from .checksum import changed_progress
from .configuration import buildable, check_is_roberta, names_ours
from .reading import FINGERPRINT, is_ours, read_file


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
    state, what = read_file(path, option), f"{option} {path}"
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


def _check_progress(state: Dict[str, Any], what: str) -> None:
    try:
        changed = changed_progress(state)
    except (ValueError, RecursionError):
        changed = "training's progress"
    if changed is not None:
        raise InputError(f"{what} is damaged: its {changed} is not what was saved; give another copy")
