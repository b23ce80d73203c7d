"""End a run that has diverged with one line, and keep its scores out of the choice of a checkpoint.

fairseq by itself writes a crash.pt and a traceback, or takes NaN for the best score. With --fp16 and --amp a batch that
overflows does not end the run: fairseq skips it and lowers the loss scale.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .errors import InputError

DIVERGED = "the run has diverged"  # in every line here, so that a log can be searched for it
REMEDY = "lower --lr or give --clip-norm 1.0"


def clip_grad_norm(clip: Callable, trainer: Any, clip_norm: float) -> Tensor:
    """Call fairseq's ``Trainer.clip_grad_norm``; raise InputError for a gradient that is not finite.

    With --fp16 fairseq raises OverflowError instead, or FloatingPointError at the lowest loss scale.
    """
    norm = clip(clip_norm)
    # fairseq reads the same number right afterwards, so this look at it makes nothing wait for the device.
    if not trainer.cfg.common.amp and not torch.isfinite(norm).all():
        update = trainer.get_num_updates() + 1
        raise InputError(f"{DIVERGED}: the loss is NaN, or its gradient is not finite, at update {update}: {REMEDY}")
    return norm


def check_validation(stats: dict[str, Any]) -> None:
    """Raise InputError for a validation whose loss is not finite, or any of whose scores is NaN."""
    for name, value in stats.items():
        if not isinstance(value, (int, float, Tensor)) or name.startswith("best_"):
            continue
        if math.isnan(value) or name == "loss" and math.isinf(value):
            kind = "NaN" if math.isnan(value) else "infinite"
            raise InputError(
                f"{DIVERGED}: the {name} is {kind} in the validation after update {stats.get('num_updates')}: {REMEDY}"
            )
