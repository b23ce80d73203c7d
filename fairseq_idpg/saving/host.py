"""The functions of fairseq that are replaced, because fairseq has no extension point there."""

import functools
from typing import Any, Callable, Dict, Optional

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer

from ..divergence import clip_grad_norm
from .loading import load_state
from .writing import copy_whole, write_whole


def install() -> None:
    """Replaces, once:

    - ``PathManager.copy``: fairseq copies one checkpoint onto the next in place, so a kill leaves half a
      checkpoint_last.pt, with which training cannot go on.
    - ``checkpoint_utils.torch_persistent_save``: it renames a file whose bytes may not have reached the disk, and on a
      full disk it writes three times into the same file.
    - ``checkpoint_utils.load_checkpoint_to_cpu``: what it reads is built as it says, strings in it evaluated as Python;
      fairseq-validate asks nobody in between.
    - ``Trainer.clip_grad_norm``: what follows a gradient that is not finite is a crash.pt and a traceback.
    """
    _replace(PathManager, "copy", _copy, staticmethod)
    _replace(checkpoint_utils, "torch_persistent_save", _save)
    _replace(checkpoint_utils, "load_checkpoint_to_cpu", _load)
    _replace(Trainer, "clip_grad_norm", clip_grad_norm)


def _replace(owner: Any, name: str, ours: Callable, kind: Callable = lambda function: function) -> None:
    """Puts ``ours(theirs, ...)`` in the place of ``owner.name``, unless it is there already."""
    theirs = getattr(owner, name)
    if getattr(theirs, "replaced_by", None) is ours:
        return

    @functools.wraps(theirs)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        return ours(theirs, *args, **kwargs)

    replacement.replaced_by = ours
    setattr(owner, name, kind(replacement))


def _copy(theirs: Callable, src_path: str, dst_path: str, overwrite: bool = False) -> Any:
    if PathManager.path_requires_pathmanager(dst_path) or PathManager.path_requires_pathmanager(src_path):
        return theirs(src_path, dst_path, overwrite=overwrite)
    copy_whole(src_path, dst_path)
    return True


def _save(theirs: Callable, obj: Any, filename: str, async_write: bool = False) -> None:
    if async_write or not PathManager.supports_rename(filename):
        return theirs(obj, filename, async_write=async_write)
    write_whole(filename, lambda file: torch.save(obj, file))


def _load(
    theirs: Callable,
    path: str,
    arg_overrides: Optional[Dict[str, Any]] = None,
    load_on_all_ranks: Optional[bool] = None,
) -> Dict[str, Any]:
    local = PathManager.get_local_path(path)
    # the trainer alone says on which ranks it loads; it takes weights and progress and builds nothing
    return load_state(local, "checkpoint", arg_overrides, builds=load_on_all_ranks is None)
