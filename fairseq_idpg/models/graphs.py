"""Training passes on a GPU as CUDA graphs: recorded once for each shape of batches, then replayed.

A pass through a frozen encoder is short, and the GPU waits for Python between its kernels. A recorded pass has no
Python in it. Batches of similar length share a recording: their sentences are padded to the next multiple of BUCKET.
"""

from collections import Counter
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BUCKET = 8  # tokens; also what attention kernels like the length of a row to be a multiple of
MOST = 64  # recordings that a model keeps; batches of further shapes are computed as they are
WARM_UP = 3  # passes before one is recorded, in which libraries choose their kernels and make their workspaces

Batch = dict[str, Tensor]


def lengthened(batch: Batch, pad: int) -> Batch:
    """The batch with ``pad``s behind its sentences, so that what the encoder reads is a multiple of BUCKET long."""
    tokens = batch.get("prompted_tokens", batch["src_tokens"])
    more = -tokens.size(1) % BUCKET
    rows = {
        name: F.pad(batch[name], (0, more), value=pad) for name in ("src_tokens", "prompted_tokens") if name in batch
    }
    return batch | rows


def recordable(model: Any) -> bool:
    """Whether every training pass of the model launches the same kernels on batches of one shape.

    Not if Python draws something for a pass, or if a method leaves more behind than logits. A model whose backbone is
    trained has no short steps and would keep a second copy of its gradients.
    """
    method = model.method
    fixed = method is None or not (method.second_pass or method.adds_loss or method.redrawn)
    return fixed and not model.args.no_freeze_backbone and not getattr(model.args, "checkpoint_activations", False)


def usable(device: torch.device) -> bool:
    """Whether a pass may be replayed here and now: in training on one GPU, without autocast."""
    alone = not torch.distributed.is_initialized() or torch.distributed.get_world_size() == 1
    return device.type == "cuda" and torch.is_grad_enabled() and alone and not torch.is_autocast_enabled("cuda")


class Recording:
    """The forward and the backward pass on batches of one shape.

    ``owner`` numbers the passes of all recordings: they share memory, so that only the last can go backwards.
    """

    def __init__(self, owner: "TrainingGraphs", model: nn.Module, batch: Batch, trained: list[Tensor], given: Any):
        self.owner, self.inputs = owner, {name: tensor.clone() for name, tensor in batch.items()}

        def run() -> Batch:
            logits, extra = model(**self.inputs, **given)
            return {"logits": logits} | {name: each for name, each in extra.items() if isinstance(each, Tensor)}

        def backwards(outputs: Batch, gradients: list[Tensor]) -> tuple[Tensor | None, ...]:
            return torch.autograd.grad([*outputs.values()], trained, gradients, allow_unused=True)

        # The first passes run on a stream of their own, as torch asks for, and draw nothing from the generator. The
        # recording has memory of its own: what was kept for passes before is given back.
        drawn = torch.cuda.get_rng_state()
        stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
        torch.cuda.empty_cache()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                outputs = run()
                backwards(outputs, [torch.ones_like(each) for each in outputs.values()])
            del outputs
        current.wait_stream(stream)
        torch.cuda.set_rng_state(drawn)
        torch.cuda.empty_cache()

        self.forward_graph, self.backward_graph = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        usual = {"pool": owner.pool, "stream": stream, "capture_error_mode": "thread_local"}
        with torch.cuda.graph(self.forward_graph, **usual):
            outputs = run()
        self.given = [torch.empty_like(each) for each in outputs.values()]
        with torch.cuda.graph(self.backward_graph, **usual):
            self.gradients = backwards(outputs, self.given)
        self.outputs = {name: each.detach() for name, each in outputs.items()}

    def replay(self, batch: Batch, trained: list[Tensor]) -> Batch:
        """What the model gives for a batch of this shape: ``logits``, and tensors beside them."""
        for name, tensor in batch.items():
            self.inputs[name].copy_(tensor)
        return dict(zip(self.outputs, _Replay.apply(self, *trained)))


class _Replay(torch.autograd.Function):
    """A recorded pass as one function of what is trained. What is replayed is overwritten next time: hence copies."""

    @staticmethod
    def forward(ctx: Any, recording: Recording, *trained: Tensor) -> tuple[Tensor, ...]:
        recording.owner.passes += 1
        ctx.recording, ctx.number = recording, recording.owner.passes
        recording.forward_graph.replay()
        return tuple(each.clone() for each in recording.outputs.values())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        recording = ctx.recording
        if ctx.number != recording.owner.passes:
            raise RuntimeError("another batch has gone forward since: with --gpu-graphs off passes are kept apart")
        for place, gradient in zip(recording.given, gradients):
            place.copy_(gradient)
        recording.backward_graph.replay()
        return None, *(None if each is None else each.clone() for each in recording.gradients)


class Key(NamedTuple):
    """What batches of one recording share."""

    shapes: tuple[tuple[str, torch.Size], ...]
    padded: bool | None
    head: str


class TrainingGraphs:
    """The recordings of a model.

    Attributes:
        pool: memory that they share.
        passes: how many have gone forward.
    """

    def __init__(self) -> None:
        self.seen: Counter[Key] = Counter()
        self.recordings: dict[Key, Recording] = {}
        self.pool: Any = None
        self.passes, self.recording = 0, False

    def longer(
        self, model: Any, batch: dict[str, Tensor | None], padded: bool | None
    ) -> tuple[Batch, bool | None] | None:
        """The batch as a pass reads it that may be recorded, and whether it has pads; None for passes that are not.

        Those that are launched before there is a recording read it too: what dropout draws goes by the shape, and a
        training that goes on records anew.
        """
        given = {name: tensor for name, tensor in batch.items() if tensor is not None}
        if self.recording or not (model.training and usable(given["src_tokens"].device) and recordable(model)):
            return None
        # Batches without pads keep their length: attention needs no mask for them, which is faster.
        return (given, padded) if padded is False else (lengthened(given, model.encoder.dictionary.pad()), True)

    def run(self, model: Any, given: Batch, padded: bool | None, head: str) -> Batch | None:
        """What a pass on a ``longer`` batch gives, or None where it has to be launched: its shape is new."""
        key = Key(tuple((name, tensor.shape) for name, tensor in given.items()), padded, head)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if key not in self.recordings:
            self.seen[key] += 1
            if self.seen[key] == 1 or len(self.recordings) >= MOST:
                return None
            self.pool = self.pool or torch.cuda.graph_pool_handle()
            self.recording = True
            try:
                usual = {"padded": padded, "classification_head_name": head}
                self.recordings[key] = Recording(self, model, given, trained, usual)
            finally:
                self.recording = False
        return self.recordings[key].replay(given, trained)
