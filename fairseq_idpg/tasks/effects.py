"""Options that are set though nothing comes of them are refused when a run begins.

Options that a method does not have, or that act with certain values of another only, are refused by ``fill_options``
wherever they come from. What stands here is asked of new runs alone: a checkpoint may have been made before.
"""

from typing import Any, Optional

from ..arguments import given
from ..errors import InputError
from ..methods.base import Method
from ..methods.registry import find_preset


def check_effects(task_cfg: Any, cfg: Any, method: Optional[Method]) -> None:
    """Refuses options of the task (``task_cfg``) and of the model (``cfg``, filled) that change nothing.

    Raises:
        InputError: with the reason.
    """
    defaults = find_preset(cfg.method).defaults
    for name, reason in ({} if method is None else method.without_effect(cfg)).items():
        if str(getattr(cfg, name)) != str(defaults[name]):
            raise InputError(f"{given(cfg, name)} has no effect: {reason}")
    if task_cfg.prompt_position and not getattr(method, "prompt_length", 0):
        raise InputError(
            f"{given(task_cfg, 'prompt_position')} has no effect: --method {cfg.method} inserts no rows into the "
            "input: leave it out"
        )
    if str(task_cfg.representation_cache_dtype) != "float32" and not task_cfg.representation_cache:
        raise InputError(
            f"{given(task_cfg, 'representation_cache_dtype')} has no effect without --representation-cache: leave it "
            "out or give a folder"
        )
    if task_cfg.group_by_length and task_cfg.no_shuffle:
        raise InputError(
            "--group-by-length has no effect with --no-shuffle, which keeps the order: leave one of them out"
        )
