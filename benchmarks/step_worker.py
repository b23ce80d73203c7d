"""One case of benchmarks/step_time.py in a process of its own, which step_time.py starts and talks to.

Lines of JSON. In: first {"case": {...Case}, ...Settings}, then {"run": k} for each k steps. Out: what was built, then
{"seconds": [...], "peak_mib", "skipped"} for each request; {"error"} and the end where something fails.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere, installed or not

import torch
from settings import Settings
from step_cases import Case
from step_models import PAD, Built, Order, batches, repeated_draws
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

HEADS = ("classification_heads", "classifier")
LEARNING_RATE = 1e-4
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
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
    """Return ``VmHWM``, the largest, or ``VmRSS``, the present resident size of this process."""
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
        peak_mib=lambda: torch.cuda.max_memory_reserved() / MIB,
        describe=torch.cuda.get_device_name,
        release=torch.cuda.empty_cache,
    ),
}


def kept_mib(forward: Callable[[], Tensor], others: Iterable[Tensor]) -> float:
    """Return the MiB that autograd keeps for the backward pass of ``forward``, without the tensors ``others``."""
    known = {tensor.untyped_storage().data_ptr() for tensor in others}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> None:
        """Hand nothing to autograd: an output that its own graph held would stay in memory, and in the peak."""
        storage = tensor.untyped_storage()  # the whole of it: a view keeps what it looks at
        kept[storage.data_ptr()] = storage

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda nothing: nothing):
        forward()
    return sum(storage.nbytes() for place, storage in kept.items() if place not in known) / MIB


def trainable(model: nn.Module) -> int:
    """Count the parameters that are trained, without the head, which every case must train."""
    names = [(name.split("."), p.numel()) for name, p in model.named_parameters() if p.requires_grad]
    head = sum(count for parts, count in names if set(HEADS) & set(parts))
    assert head, "the head is not trained"
    return sum(count for _, count in names) - head


def built(case: Case, settings: Settings) -> Built:
    """Build the case's model, with its own prompt length unless ``settings`` say one for all."""
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
    """Adam on the ``trained`` parameters themselves."""

    skipped = 0

    def __init__(self, trained: list[nn.Parameter], rate: float):
        self.adam = torch.optim.Adam(trained, lr=rate)

    def zero_grad(self) -> None:
        self.adam.zero_grad(set_to_none=True)

    def update(self, loss: Tensor) -> None:
        loss.backward()
        self.adam.step()


class HalfPrecision:
    """fairseq's own optimizer of --fp16 and --bf16 around torch's Adam.

    The whole model is in half precision, frozen weights too; Adam works on float32 copies of what is trained, one for
    each parameter. With float16 the loss is scaled, dynamically, and a step whose gradients overflow is skipped.

    Attributes:
        skipped: steps whose gradients overflowed.
    """

    def __init__(self, trained: list[nn.Parameter], rate: float):
        # the peers' float32 steps do without fairseq
        from fairseq.dataclass.configs import CommonConfig, DistributedTrainingConfig, OptimizationConfig
        from fairseq.optim import FairseqOptimizer
        from fairseq.optim.fp16_optimizer import FP16Optimizer

        cfg = SimpleNamespace(
            common=CommonConfig(bf16=trained[0].dtype == torch.bfloat16),
            optimization=OptimizationConfig(),
            distributed_training=DistributedTrainingConfig(distributed_world_size=1),
            optimizer=None,
        )
        copies = FP16Optimizer.build_fp32_params(None, trained, flatten=False)
        adam = FairseqOptimizer(None)
        adam._optimizer = torch.optim.Adam(copies, lr=rate)
        self.optimizer = FP16Optimizer(cfg, trained, adam, copies)
        self.skipped = 0

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()

    def update(self, loss: Tensor) -> None:
        self.optimizer.backward(loss)
        try:
            self.optimizer.clip_grad_norm(0.0)  # clips nothing; this is where fairseq notices an overflow
        except OverflowError:
            self.skipped += 1
        else:
            self.optimizer.step()


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
        kind = FullPrecision if self.dtype == torch.float32 else HalfPrecision
        self.optimizer: FullPrecision | HalfPrecision = kind(trained, LEARNING_RATE)
        self.next = self.stream()
        libraries = ["torch", *([*{case.maker, "transformers"}] if case.peer else ["fairseq"])]
        self.built = {
            "trainable": trainable(self.model),
            "built_mib": self.device.held_mib(),
            "tokens": sum(int(tokens.ne(PAD).sum()) for tokens, _ in found) / len(found),
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
