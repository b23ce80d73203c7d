"""fairseq-train, whose last line says how much memory it took at most."""

from __future__ import annotations

import sys
from resource import RUSAGE_SELF, getrusage

import torch
from fairseq_cli.train import cli_main


def peak_memory() -> tuple[float, str]:
    """(MiB, of what): reserved on GPUs by this process, or its resident set.

    fairseq resets torch's peak at every update, but what torch has reserved is not given back before the end.
    """
    if torch.cuda.is_initialized():
        devices = range(torch.cuda.device_count())
        return sum(torch.cuda.memory_reserved(device) for device in devices) / 2**20, "GPU"
    return getrusage(RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10), "CPU"


if __name__ == "__main__":
    try:
        cli_main()
    finally:
        print("=== peak memory {:.0f} MiB ({})".format(*peak_memory()), flush=True)
