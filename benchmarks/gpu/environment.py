"""What benchmarks/gpu.sh runs on: python benchmarks/gpu/environment.py --device cuda --json FILE"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # installed or not

import torch
from gpu.looking import parse_look
from step_measure import ROOT, write_json

from preprocess.build import installed_versions

LIBRARIES = ("torch", "fairseq", "fairseq-fixed", "numpy", "transformers", "peft", "adapters", "triton", "pytest")
SAME = ("hardware", "torch")  # what figures of one folder share


def asked(*command: str) -> str | None:
    """The output of a command that may not be there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def of_the_gpu() -> dict[str, Any]:
    card = torch.cuda.get_device_properties(0)
    return {
        "hardware": card.name,
        "memory_gib": card.total_memory / 2**30,
        "capability": f"{card.major}.{card.minor}",
        "multiprocessors": card.multi_processor_count,
        "driver": asked("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "bfloat16": torch.cuda.is_bf16_supported(),
        "cudnn": torch.backends.cudnn.version(),
        "tf32": torch.backends.cuda.matmul.allow_tf32,
    }


def environment(device: str) -> dict[str, Any]:
    return {
        "hardware": "CPU",
        **(of_the_gpu() if device == "cuda" else {}),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "libraries": installed_versions(LIBRARIES),
        "commit": asked("git", "rev-parse", "HEAD"),
    }


if __name__ == "__main__":
    args = parse_look(__doc__)
    write_json(args.json, environment(args.device))
