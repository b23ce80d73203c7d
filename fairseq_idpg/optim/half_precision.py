"""Keep what fairseq's checkpoints lack, so that half-precision training resumes as if it had never stopped.

The optimizer of --fp16 and --bf16 changes float32 copies W of the trainable weights and rounds them into the model,
w = half(W). fairseq saves w alone, so a resumed run would start from W = w, other weights than the stopped run had.
It saves the loss scale, but not the counters that say when the scale grows again. Kept here are, with

    --fp16, --bf16                                      W and the counters (--bf16 scales no loss)
    --memory-efficient-fp16, --memory-efficient-bf16    the counters: there are no other weights than the half ones
    --amp                                               scale and counter of torch's GradScaler: the weights are float32
    float32                                             nothing
"""

import logging
import weakref
from typing import Any

import torch
from fairseq.optim import AMPOptimizer
from torch import Tensor

logger = logging.getLogger(__name__)

COUNTERS = ("_iter", "_last_overflow_iter", "_last_rescale_iter", "_overflows_since_rescale")
AMP_COUNTERS = ("scale", "_growth_tracker")


class KeptHalfPrecision:
    """The section of ``model.kept`` with these values.

    A run that starts from update 0 (--reset-optimizer, --finetune-from-model) takes nothing from it, but starts from
    the file's half weights. ``saved``: whether checkpoints hold the state of the optimizer; else nothing is kept.
    """

    def __init__(self, saved: bool = True):
        self.saved = saved
        self._optimizer: weakref.ref | None = None  # weak, so that copies of the model do not copy the optimizer
        self._loaded: dict[str, Any] = {}

    def before_step(self, optimizer: Any, updates: int) -> None:
        """Put back what the checkpoint kept, before the first step of a resumed run; later calls cost nothing.

        ``optimizer``: the trainer's, with the state that fairseq has loaded; ``updates``: made before this step.
        """
        if self._optimizer is not None and self._optimizer() is optimizer:
            return
        resumed = self._optimizer is None and updates > 0
        loaded, self._loaded, self._optimizer = self._loaded, {}, weakref.ref(optimizer)
        if not resumed:
            return
        missing = []
        if not restore_weights(optimizer, loaded.get("weights") or []):
            missing.append("float32 weights")
        if not restore_scaler(optimizer, loaded.get("scaler") or {}):
            missing.append("loss scaler's counters")
        if missing:
            logger.warning(
                f"the checkpoint lacks {' and '.join(missing)} for this precision (an earlier version or another "
                "precision wrote it): results differ slightly from those of a run that was never stopped"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return what to keep; empty where fairseq saves everything."""
        optimizer = None if self._optimizer is None else self._optimizer()
        if optimizer is None or not self.saved:
            return self._loaded if self.saved else {}
        state = {"weights": [weight.detach() for weight in float32_weights(optimizer)], "scaler": counters(optimizer)}
        return {name: value for name, value in state.items() if value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._loaded = state


def float32_weights(optimizer: Any) -> list[Tensor]:
    """Return W of each trainable parameter, in the optimizer's order and in the parameters' shapes."""
    copies = getattr(optimizer, "fp32_params", [])
    if not isinstance(copies, dict):
        return list(copies)
    # one flat tensor for each device: views of its parts
    views = []
    for device, flat in copies.items():
        halves = [half for half in optimizer.fp16_params if len(copies) == 1 or half.device.index == device]
        parts = flat.data.split([half.numel() for half in halves])
        views += [part.view_as(half) for part, half in zip(parts, halves)]
    return views


def restore_weights(optimizer: Any, saved: list[Tensor]) -> bool:
    """Put float32 weights back; return False without changing any if they are not what the loaded model rounds."""
    weights = float32_weights(optimizer)
    pairs = list(zip(saved, optimizer.fp16_params)) if len(weights) == len(saved) > 0 else []
    same = (v.shape == h.shape and torch.equal(v.to(h.device, h.dtype), h.detach()) for v, h in pairs)
    if len(pairs) < len(weights) or not all(same):
        return False
    for weight, (value, _) in zip(weights, pairs):
        weight.data.copy_(value)
    return True


def counters(optimizer: Any) -> dict[str, Any]:
    """Return the state of the loss scaler that fairseq does not save; empty without a scaler."""
    scaler: Any = getattr(optimizer, "scaler", None)
    if scaler is None:
        return {}
    amp = isinstance(optimizer, AMPOptimizer)
    state = scaler.state_dict() if amp else vars(scaler)  # torch's is empty without a GPU
    return {name: state[name] for name in (AMP_COUNTERS if amp else COUNTERS) if name in state}


def restore_scaler(optimizer: Any, saved: dict[str, Any]) -> bool:
    """Put the counters back; return False where some of them were not saved."""
    names = counters(optimizer).keys()
    if not names <= saved.keys():
        return False
    restored = {name: saved[name] for name in names}
    if isinstance(optimizer, AMPOptimizer) and names:
        optimizer.scaler.load_state_dict({**optimizer.scaler.state_dict(), **restored})
    elif names:
        vars(optimizer.scaler).update(restored)
    return True
