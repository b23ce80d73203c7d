"""What training in half precision goes on from and fairseq's checkpoints leave out.

The optimizer of --fp16 and --bf16 changes float32 copies W of the trainable weights and rounds them into the model,
w = half(W). fairseq saves w alone, so a resumed run starts from W = w, other weights than those of the stopped run.
It saves the loss scale, but not the counters that say when the scale grows again.

    --fp16, --bf16                                      W and the counters (--bf16 scales no loss)
    --memory-efficient-fp16, --memory-efficient-bf16    the counters: the half weights are all there are
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

# of fairseq's scaler
COUNTERS = ("_iter", "_last_overflow_iter", "_last_rescale_iter", "_overflows_since_rescale")
AMP_COUNTERS = ("scale", "_growth_tracker")


class KeptHalfPrecision:
    """The section of ``model.kept`` with which a resumed run goes on exactly as if it had not been stopped.

    A run that starts from update 0 (--reset-optimizer, --finetune-from-model) takes nothing from it: it starts from the
    weights that everybody else reads in the file. Without ``saved`` checkpoints hold no state of the optimizer, and
    there is nothing to go on from.
    """

    def __init__(self, saved: bool = True):
        self.saved = saved
        self._optimizer: weakref.ref | None = None  # weak: copies of the model copy no optimizer
        self._loaded: dict[str, Any] = {}

    def before_step(self, optimizer: Any, updates: int) -> None:
        """Give the first step of a resumed run what the checkpoint kept; later calls cost nothing. ``optimizer``: the
        trainer's, with the state that fairseq has loaded into it; ``updates``: made before this step.
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
                f"the checkpoint keeps no {' and no '.join(missing)} for this precision (an earlier version or another "
                "precision wrote it): results differ slightly from those of a run that was never stopped"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return what to keep; empty where the checkpoint says all."""
        optimizer = None if self._optimizer is None else self._optimizer()
        if optimizer is None or not self.saved:
            return self._loaded if self.saved else {}
        state = {"weights": [weight.detach() for weight in float32_weights(optimizer)], "scaler": counters(optimizer)}
        return {name: value for name, value in state.items() if value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._loaded = state


def float32_weights(optimizer: Any) -> list[Tensor]:
    """Return W of each trainable parameter, in the optimizer's order and shapes; views of one flat tensor."""
    copies = getattr(optimizer, "fp32_params", [])
    if not isinstance(copies, dict):
        return list(copies)
    views = []
    for device, flat in copies.items():
        own = [half for half in optimizer.fp16_params if len(copies) == 1 or half.device.index == device]
        parts = flat.data.split([half.numel() for half in own])
        views += [part.view_as(half) for part, half in zip(parts, own)]
    return views


def restore_weights(optimizer: Any, saved: list[Tensor]) -> bool:
    """Put float32 weights back; return False where there are none whose rounding is exactly the loaded model."""
    weights = float32_weights(optimizer)
    pairs = list(zip(saved, optimizer.fp16_params)) if len(weights) == len(saved) > 0 else []
    same = (v.shape == h.shape and torch.equal(v.to(h.device, h.dtype), h.detach()) for v, h in pairs)
    if len(pairs) < len(weights) or not all(same):
        return False
    for weight, (value, _) in zip(weights, pairs):
        weight.data.copy_(value)
    return True


def counters(optimizer: Any) -> dict[str, Any]:
    """Return the loss scaler's state that fairseq does not save; empty where no loss is scaled."""
    scaler: Any = getattr(optimizer, "scaler", None)
    if scaler is None:
        return {}
    amp = isinstance(optimizer, AMPOptimizer)
    state = scaler.state_dict() if amp else vars(scaler)  # the former is empty without a GPU
    return {name: state[name] for name in (AMP_COUNTERS if amp else COUNTERS) if name in state}


def restore_scaler(optimizer: Any, saved: dict[str, Any]) -> bool:
    """Put the counters back; return False where some of them were not saved."""
    own = counters(optimizer)
    if not own.keys() <= saved.keys():
        return False
    found = {name: saved[name] for name in own}
    if isinstance(optimizer, AMPOptimizer) and own:
        optimizer.scaler.load_state_dict({**optimizer.scaler.state_dict(), **found})
    elif own:
        vars(optimizer.scaler).update(found)
    return True
