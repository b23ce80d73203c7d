"""The devices of benchmarks/step_time.py: when their work is done, and how much memory it takes.

python benchmarks/step_device.py cuda       # ends in one line and status 1 where torch cannot use it
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

MIB = 2**20


@dataclass(frozen=True)
class Device:
    """
    Attributes:
        finish: waits until the work given to the device is done.
        held_mib, peak_mib: memory in use, now and at most so far, in MiB.
        describe: what to call the hardware.
        release: gives back memory that is kept for the next step, for other processes on the same device; None where
            nothing is kept.
    """

    finish: Callable[[], object]
    held_mib: Callable[[], float]
    peak_mib: Callable[[], float]
    describe: Callable[[], str]
    release: Callable[[], object] | None = None


def resident_mib(which: str) -> float:
    """``VmHWM``, the largest, or ``VmRSS``, the present resident size of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which + ":")) / 1024


DEVICES: dict[str, Device] = {
    "cpu": Device(
        finish=lambda: None,
        held_mib=lambda: resident_mib("VmRSS"),
        peak_mib=lambda: resident_mib("VmHWM"),
        describe=lambda: "CPU",
    ),
    "cuda": Device(
        finish=torch.cuda.synchronize,
        held_mib=lambda: torch.cuda.memory_allocated() / MIB,
        peak_mib=lambda: torch.cuda.max_memory_allocated() / MIB,
        describe=torch.cuda.get_device_name,
        release=torch.cuda.empty_cache,
    ),
}


def kept_mib(forward: Callable[[], Tensor], others: Iterable[Tensor]) -> float:
    """MiB that autograd keeps for the backward pass of ``forward``, without ``others``, which are there in any case."""
    known = {tensor.untyped_storage().data_ptr() for tensor in others}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> None:
        """Nothing is handed to autograd: an output that its own graph held would stay in memory, and in the peak."""
        storage = tensor.untyped_storage()  # the whole of it: a view keeps what it looks at
        kept[storage.data_ptr()] = storage

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda nothing: nothing):
        forward()
    return sum(storage.nbytes() for place, storage in kept.items() if place not in known) / MIB


def why_not(device: str) -> str | None:
    """One line that says why torch cannot use ``device``, or None."""
    if device == "cpu" or torch.cuda.is_available():
        return None
    if torch.version.cuda is None:
        return (
            f"--device cuda: torch {torch.__version__} is a build without CUDA: install a CUDA build of this version "
            f"for {sys.executable} (https://pytorch.org/get-started/locally), or measure on the CPU"
        )
    return f"--device cuda: torch {torch.__version__} finds no NVIDIA GPU that it can use: measure on the CPU"


if __name__ == "__main__":
    problem = why_not(sys.argv[1])
    sys.exit(f"error: {problem}" if problem else 0)
