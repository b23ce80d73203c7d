"""One case of benchmarks/step_time.py in a process of its own, which step_measure.py starts and talks to.

Lines of JSON. In: first {"case": {...Case}, ...Settings}, then {"run": k} for each k steps. Out: what was built, then
{"seconds": [...], "peak_mib", "skipped"} for each request; {"error"} and the end where something fails.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere, installed or not

import torch
from step_cases import Case
from step_data import PAD, Order, batches, fingerprints, repeated_draws
from step_device import DEVICES, kept_mib
from step_models import Built
from step_settings import Settings
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

HEADS = ("classification_heads", "classifier")
LEARNING_RATE = 1e-4
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def trainable(model: nn.Module) -> int:
    """Parameters that are trained, without the head, which every case must train."""
    names = [(name.split("."), p.numel()) for name, p in model.named_parameters() if p.requires_grad]
    head = sum(count for parts, count in names if set(HEADS) & set(parts))
    assert head, "the head is not trained"
    return sum(count for _, count in names) - head


def built(case: Case, settings: Settings) -> Built:
    """The case's model, which has its own prompt length unless ``settings`` say one for all."""
    if case.peer:
        from step_peers import build
    else:
        from step_models import build
    settings = replace(settings, prompt_length=settings.prompt_length or case.rows)
    if settings.device == "cpu":
        return build(case, settings)
    with repeated_draws():
        return build(case, settings)


class FullPrecision:
    """Adam on ``trained`` itself; see step_half.HalfPrecision."""

    skipped = 0

    def __init__(self, trained: list[nn.Parameter], rate: float):
        self.masters = trained
        self.adam = torch.optim.Adam(trained, lr=rate)

    def zero_grad(self) -> None:
        self.adam.zero_grad(set_to_none=True)

    def update(self, loss: Tensor) -> None:
        loss.backward()
        self.adam.step()


def make_optimizer(trained: list[nn.Parameter], dtype: torch.dtype) -> Any:
    if dtype == torch.float32:
        return FullPrecision(trained, LEARNING_RATE)
    from step_half import HalfPrecision  # needs fairseq, which the peers' float32 steps do without

    return HalfPrecision(trained, LEARNING_RATE)


class Steps:
    """The case's steps, one after another, over its batches again and again."""

    def __init__(self, case: Case, settings: Settings):
        torch.set_num_threads(settings.threads)
        torch.manual_seed(0)
        order: Order | None = None
        if case.grouped:
            from fairseq_idpg.tasks.dataset import grouped_by_length

            order = grouped_by_length
        found = batches(settings, order)
        self.device, self.place = DEVICES[settings.device], settings.device
        self.dtype, self.clock = getattr(torch, settings.dtype), CLOCKS[settings.clock]
        self.model, arguments, self.logits = built(case, settings)
        self.model.to(self.dtype).to(self.place).train()
        self.batches = [(self.placed(arguments(tokens)), labels.to(self.place)) for tokens, labels in found]
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = make_optimizer(trained, self.dtype)
        self.next = self.stream()
        in_order, in_any = fingerprints(found)
        libraries = ["torch", *([*{case.maker, "transformers"}] if case.peer else ["fairseq"])]
        self.built = {
            "trainable": trainable(self.model),
            "built_mib": self.device.held_mib(),
            "tokens": sum(int(tokens.ne(PAD).sum()) for tokens, _ in found) / len(found),
            "batches": in_order,
            "examples": in_any,
            "hardware": self.device.describe(),
            "libraries": {name: str(sys.modules[name].__version__) for name in libraries},
            "kept_mib": self._kept_mib(),
        }

    def placed(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Tensors on the device, and floating ones in the model's precision."""
        return {
            name: value.to(self.place, self.dtype if value.is_floating_point() else value.dtype)
            if isinstance(value, Tensor)
            else value
            for name, value in arguments.items()
        }

    def _kept_mib(self) -> float:
        """What a step keeps between its forward and its backward pass, besides the model and the batch."""
        arguments, labels = self.batches[0]
        given = [value for value in (*arguments.values(), labels) if isinstance(value, Tensor)]
        return kept_mib(lambda: self.loss(arguments, labels), [*self.model.parameters(), *self.model.buffers(), *given])

    def stream(self) -> Iterator[Any]:
        while True:
            yield from self.batches

    def loss(self, arguments: dict[str, Any], labels: Tensor) -> Tensor:
        """In float32, with the term that a method adds."""
        loss = cross_entropy(self.logits(self.model(**arguments)).float(), labels)
        method = getattr(self.model, "method", None)
        return loss + method.extra_loss() if method is not None and getattr(method, "adds_loss", None) else loss

    def step(self) -> Tensor:
        """Forward, backward, optimizer; the loss."""
        arguments, labels = next(self.next)
        self.optimizer.zero_grad()
        loss = self.loss(arguments, labels)
        self.optimizer.update(loss)
        return loss.detach()

    def run(self, count: int) -> list[float]:
        """Seconds of each of the next steps.

        On a GPU, which the cases share, ``count`` steps go before, so that those that are timed find the memory that
        they need in torch's cache; it is given back afterwards.
        """
        if self.device.release:
            for _ in range(count):
                self.step()
        seconds = []
        for _ in range(count):
            self.device.finish()
            start = self.clock()
            loss = self.step()
            self.device.finish()
            seconds.append(self.clock() - start)
        assert torch.isfinite(loss), "the loss is not finite"
        if self.device.release:
            self.device.release()
        return seconds


def first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries that print do not disturb the answers
    try:
        request = json.loads(sys.stdin.readline())
        steps = Steps(Case(**request.pop("case")), Settings(**request))
        print(json.dumps(steps.built), file=answers)
        for line in sys.stdin:
            seconds = steps.run(json.loads(line)["run"])
            found = {"seconds": seconds, "peak_mib": steps.device.peak_mib(), "skipped": steps.optimizer.skipped}
            print(json.dumps(found), file=answers)
    except Exception as error:
        print(json.dumps({"error": first_line(error)}), file=answers)
        raise


if __name__ == "__main__":
    main()
