"""One case of benchmarks/step_time.py in a process of its own, which step_time.py starts and talks to.

Lines of JSON. In: first {"case", "threads", "batch", "steps", size}, then {"run": k} for each k steps. Out: what was
built, then {"seconds": [...], "peak_mib"} for each request; {"error"} and the end where something fails.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import torch
from step_cases import CASES
from step_data import batches, fingerprints
from step_models import build
from torch import nn
from torch.nn.functional import cross_entropy

ROOT = Path(__file__).resolve().parents[1]
HEADS = ("classification_heads", "classifier")
LEARNING_RATE = 1e-4


def memory_mib(which: str) -> float:
    """``VmHWM``, the largest, or ``VmRSS``, the present resident size of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which + ":")) / 1024


def trainable(model: nn.Module) -> int:
    """Parameters that are trained, without the head, which every case must train."""
    names = [(name.split("."), p.numel()) for name, p in model.named_parameters() if p.requires_grad]
    head = sum(count for parts, count in names if set(HEADS) & set(parts))
    assert head, "the head is not trained"
    return sum(count for _, count in names) - head


class Steps:
    """The case's steps, one after another, over its batches again and again."""

    def __init__(self, settings: dict[str, Any]):
        case = CASES[settings["case"]]
        torch.set_num_threads(settings["threads"])
        torch.manual_seed(0)
        order = None
        if case.grouped:
            from fairseq_idpg.tasks.ordering import grouped_by_length as order
        found = batches(settings["batch"], settings["steps"], order)
        self.model, arguments, self.logits = build(case, settings)
        self.model.train()
        self.batches = [(arguments(tokens), labels) for tokens, labels in found]
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=LEARNING_RATE)
        self.next = self.stream()
        in_order, in_any = fingerprints(found)
        libraries = ["torch", *([case.maker, "transformers"] if case.peer else ["fairseq"])]
        self.built = {
            "trainable": trainable(self.model),
            "built_mib": memory_mib("VmRSS"),
            "batches": in_order,
            "examples": in_any,
            "libraries": {name: str(sys.modules[name].__version__) for name in libraries},
        }

    def stream(self) -> Iterator[Any]:
        while True:
            yield from self.batches

    def run(self, count: int) -> list[float]:
        """Seconds of each of the next steps: forward, backward, optimizer."""
        seconds = []
        for _ in range(count):
            arguments, labels = next(self.next)
            start = time.perf_counter()
            self.optimizer.zero_grad(set_to_none=True)
            loss = cross_entropy(self.logits(self.model(**arguments)).float(), labels)
            loss.backward()
            self.optimizer.step()
            seconds.append(time.perf_counter() - start)
        assert torch.isfinite(loss), "the loss is not finite"
        return seconds


def first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries that print do not disturb the answers
    sys.path[0] = str(ROOT)  # not benchmarks/, whose preprocess.py would hide the package
    try:
        steps = Steps(json.loads(sys.stdin.readline()))
        print(json.dumps(steps.built), file=answers)
        for line in sys.stdin:
            seconds = steps.run(json.loads(line)["run"])
            print(json.dumps({"seconds": seconds, "peak_mib": memory_mib("VmHWM")}), file=answers)
    except Exception as error:
        print(json.dumps({"error": first_line(error)}), file=answers)
        raise


if __name__ == "__main__":
    main()
