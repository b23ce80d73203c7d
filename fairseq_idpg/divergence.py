"""A run that has diverged ends with one line, and none of its scores takes part in the choice of a checkpoint.

fairseq by itself writes a crash.pt and a traceback, skips batch after batch, or takes NaN for the best score. With
--fp16 and --amp a batch that overflows is no end: fairseq skips it and lowers the loss scale.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .errors import InputError

DIVERGED = "the run has diverged"  # in every line here, so that a log can be searched for it
REMEDY = "lower --lr or give --clip-norm 1.0"
OVERFLOWS = 100  # in a row, with nothing changed in between


def clip_grad_norm(theirs: Callable, trainer: Any, clip_norm: float) -> Tensor:
    """fairseq's ``Trainer.clip_grad_norm``, which is the first to know the gradient's norm.

    fairseq reads the same number right afterwards, so looking at it here makes nothing wait for the device. Raise
    InputError for NaN or an infinite number in the gradient where no loss scale can be lowered, or in each of many
    batches in a row at a loss scale that stays; else as fairseq: FloatingPointError at the lowest loss scale,
    OverflowError for a batch that it skips.
    """
    update, amp = trainer.get_num_updates() + 1, trainer.cfg.common.amp
    scaler: Any = getattr(trainer.optimizer, "scaler", None)  # --bf16 has none
    before = getattr(scaler, "loss_scale", None)
    try:
        if amp and not scaler.is_enabled():  # on a CPU: fairseq would ask it for a scale that it does not have
            amp, norm = False, trainer.optimizer.fp32_optimizer.clip_grad_norm(clip_norm)
        else:
            norm = theirs(clip_norm)
    except OverflowError:
        # --threshold-loss-scale: the scale stays, and the same batches would overflow for ever
        unchanged = before is not None and scaler.loss_scale == before
        trainer.overflows = getattr(trainer, "overflows", 0) + 1 if unchanged else 0
        if trainer.overflows >= OVERFLOWS:
            raise InputError(
                f"{DIVERGED}: {OVERFLOWS} batches in a row overflowed at --threshold-loss-scale {before:g} before "
                f"update {update}: {REMEDY}"
            ) from None
        raise
    trainer.overflows = 0
    if not amp and not torch.isfinite(norm).all():
        raise InputError(f"{DIVERGED}: the loss is NaN, or its gradient is not finite, at update {update}: {REMEDY}")
    return norm


def check_validation(stats: dict[str, Any]) -> None:
    """Raise InputError for a validation whose loss is not finite, or any of whose scores is NaN."""
    for name, value in stats.items():
        if not isinstance(value, (int, float, Tensor)) or name.startswith("best_"):
            continue
        if math.isnan(value) or name == "loss" and math.isinf(value):
            found = "NaN" if math.isnan(value) else "infinite"
            raise InputError(
                f"{DIVERGED}: the {name} is {found} in the validation after update {stats.get('num_updates')}: {REMEDY}"
            )
