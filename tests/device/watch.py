"""What a device would be waited for, and what touches another device, operation by operation."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import fairseq
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.command_line import ROOT

META = torch.device("meta")
NUMBER = "_local_scalar_dense"  # what item(), int(), float() and bool() of a tensor come down to
# operations whose result, or whose shape, depends on numbers that a GPU would have to be waited for
READING = {NUMBER, "is_nonzero", "nonzero", "masked_select", "equal", "unique", "_unique2", "unique_dim", "item"}
READING |= {"repeat_interleave", "bincount", "multinomial", "lift_fresh"}  # the last: torch.tensor of numbers
# Where a step waits for the device in any case, and what it is told when all is well. All of them come after the
# backward pass, and only the first of a step waits long:
ASKED: dict[str, float] = {
    "fairseq/optim/fp16_optimizer.py clip_grad_norm": False,  # grad_norm > max_norm
    "fairseq/optim/dynamic_loss_scaler.py check_overflow": False,  # grad_norm == inf or grad_norm != grad_norm
    "fairseq_idpg/training/fairseq_patches.py clip_grad_norm": True,  # torch.isfinite(norm).all()
    "fairseq/trainer.py train_step": True,  # torch.isfinite(grad_norm).all()
    "fairseq/trainer.py _reduce_and_log_stats": True,  # torch.isfinite(grad_norm)
    "fairseq/logging/meters.py safe_round": 1.0,  # number.item() of each number of the log
}
# what no other device is asked: which tokens are no pads
ON_A_CPU = {"fairseq_idpg/backbone/cpu.py real_tokens"}
TORCH = str(Path(torch.__file__).parent)
FAIRSEQ = Path(fairseq.__file__).parent


def asker() -> str:
    """``folder/file.py function``, of the nearest caller that is not torch."""
    frame: Any = sys._getframe(1)
    while frame.f_code.co_filename.startswith(TORCH) or frame.f_code.co_filename == __file__:
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    root = FAIRSEQ.parent if path.is_relative_to(FAIRSEQ) else ROOT
    return f"{path.relative_to(root)} {frame.f_code.co_name}"


# methods of a tensor that wait for its device, also where there is no operation behind them because it is on the CPU
FETCHING = {"tolist", "cpu", "numpy", "item", "nonzero", "__array__", "__bool__", "__int__", "__float__", "__index__"}


class Fetches(TorchFunctionMode):
    """Counts the calls, on a CPU, that would wait for a GPU: ``found`` is (asker, method) -> how often."""

    def __init__(self):
        super().__init__()
        self.found: Counter[tuple[str, str]] = Counter()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        fetches = name in FETCHING or name == "to" and "cpu" in map(str, args[1:])
        if fetches and asker() not in ON_A_CPU:
            self.found[asker(), name] += 1
        return function(*args, **(kwargs or {}))


class Watch(TorchDispatchMode):
    """Counts the operations that read numbers of a device, those of the backward pass too.

    Args:
        device: of the step.
        answers: asker -> the number that it is told instead of one of torch's meta device, which has none.

    Attributes:
        reads: (asker, operation) -> how often.
        strays: (asker, operation) -> how often it read or made a tensor of another device.
        crossings: those of them that read or made one of this device, too.
    """

    def __init__(self, device: torch.device, answers: dict[str, float] | None = None):
        super().__init__()
        self.device, self.answers = device, {} if answers is None else answers
        self.reads: Counter[tuple[str, str]] = Counter()
        self.strays: Counter[tuple[str, str]] = Counter()
        self.crossings: Counter[tuple[str, str]] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name, given = function.overloadpacket.__name__, devices((args, kwargs))
        chosen = [part for part in (args[1] if name in ("index", "index_put_") else ()) if part is not None]
        reads = name in READING or any(part.dtype in (torch.bool, torch.uint8) for part in chosen)
        if reads and self.device in given:
            self.reads[asker(), name] += 1
            if name == NUMBER and self.device == META and asker() in self.answers:
                return self.answers[asker()]
        result = function(*args, **(kwargs or {}))
        touched = given | devices(result)
        if touched - {self.device}:
            self.strays[asker(), name] += 1
        if len(touched) > 1:
            self.crossings[asker(), name] += 1
        return result


def devices(values: Any) -> set[torch.device]:
    return {leaf.device for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)}
