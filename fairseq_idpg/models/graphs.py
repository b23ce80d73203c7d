"""Training passes on a GPU as CUDA graphs: recorded once for each shape of batches, then replayed.

A pass through a frozen encoder is short, and the GPU waits for Python between its kernels. A recorded pass has no
Python in it. Batches of similar length share a recording: their sentences are padded to the next multiple of BUCKET.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BUCKET = 8  # tokens; attention kernels, too, are fast for lengths that are multiples of it
MOST = 64  # recordings that a model keeps; passes on batches of further shapes are launched
WARM_UP = 3  # passes before a recording, in which libraries choose their kernels and make their workspaces

Batch = dict[str, Tensor]


def lengthened(batch: Batch, pad: int) -> Batch:
    """Return the batch with more ``pad`` behind it, so that what the encoder reads is a multiple of BUCKET long."""
    tokens = batch.get("prompted_tokens", batch["src_tokens"])
    more = -tokens.size(1) % BUCKET
    rows = {
        name: F.pad(batch[name], (0, more), value=pad) for name in ("src_tokens", "prompted_tokens") if name in batch
    }
    return batch | rows


def recordable(model: Any) -> bool:
    """Return whether every training pass of the model launches the same kernels on batches of one shape.

    Methods for which Python draws something, or that leave more than logits behind, do not. A model whose backbone is
    trained has no short steps and would keep a second copy of its gradients.
    """
    method = model.method
    fixed = method is None or not (method.second_pass or method.adds_loss or method.redrawn)
    return fixed and not model.args.no_freeze_backbone and not getattr(model.args, "checkpoint_activations", False)


def usable(device: torch.device) -> bool:
    """Return whether a pass may be replayed now: in training on one GPU, without autocast."""
    alone = not torch.distributed.is_initialized() or torch.distributed.get_world_size() == 1
    return device.type == "cuda" and torch.is_grad_enabled() and alone and not torch.is_autocast_enabled("cuda")


class Recording:
    """The forward and the backward pass on batches of one shape.

    Recordings share memory, so only the last pass can go backwards; ``owner`` numbers the passes of all.
    """

    def __init__(self, owner: "TrainingGraphs", model: nn.Module, batch: Batch, trained: list[Tensor], options: Any):
        self.owner, self.inputs = owner, {name: tensor.clone() for name, tensor in batch.items()}

        def run() -> Batch:
            logits, extra = model(**self.inputs, **options)
            return {"logits": logits} | {name: each for name, each in extra.items() if isinstance(each, Tensor)}

        def backwards(outputs: Batch, gradients: list[Tensor]) -> tuple[Tensor | None, ...]:
            return torch.autograd.grad([*outputs.values()], trained, gradients, allow_unused=True)

        # torch asks for some passes on another stream first. They must not change what dropout draws later. The memory
        # that torch keeps for launched passes is given back, as recordings have their own.
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
        self.output_gradients = [torch.empty_like(each) for each in outputs.values()]
        with torch.cuda.graph(self.backward_graph, **usual):
            self.gradients = backwards(outputs, self.output_gradients)
        self.outputs = {name: each.detach() for name, each in outputs.items()}

    def replay(self, batch: Batch, trained: list[Tensor]) -> Batch:
        """Return ``logits`` for a batch of this shape, and the tensors that the model returns beside them."""
        for name, tensor in batch.items():
            self.inputs[name].copy_(tensor)
        return dict(zip(self.outputs, _Replay.apply(self, *trained)))


class _Replay(torch.autograd.Function):
    """A recorded pass as one function of what is trained. It returns copies, as the next replay overwrites its own."""

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
        for place, gradient in zip(recording.output_gradients, gradients):
            place.copy_(gradient)
        recording.backward_graph.replay()
        return None, *(None if each is None else each.clone() for each in recording.gradients)


class TrainingGraphs:
    """The recordings of a model, by the shapes of their batches."""

    def __init__(self) -> None:
        self.seen: Counter[Any] = Counter()
        self.recordings: dict[Any, Recording] = {}
        self.pool: Any = None  # memory that the recordings share
        self.passes = 0  # that have gone forward
        self.recording = False

    def replay(
        self, model: Any, tensors: Mapping[str, Tensor | None], padded: bool | None, head: str
    ) -> tuple[Batch, bool | None, Batch | None]:
        """Return the batch as the pass reads it, whether it has pads, and the pass's tensors if it was recorded.

        Passes that are launched before there is a recording read the lengthened batch too: what dropout draws depends
        on the shape, and a training that goes on records anew.
        """
        batch = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        if self.recording or not (usable(batch["src_tokens"].device) and recordable(model)):
            return batch, padded, None
        # Batches without pads keep their length: attention needs no mask for them, which is faster.
        if padded is not False:
            batch, padded = lengthened(batch, model.encoder.dictionary.pad()), True
        key = tuple((name, tensor.shape) for name, tensor in batch.items()), padded, head
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # The first batch of a shape is launched, the second is recorded, and all later ones are replayed.
        if key not in self.recordings:
            self.seen[key] += 1
            if self.seen[key] == 1 or len(self.recordings) >= MOST:
                return batch, padded, None
            self.pool = self.pool or torch.cuda.graph_pool_handle()
            self.recording = True  # the passes within are launched
            try:
                options = {"padded": padded, "classification_head_name": head}
                self.recordings[key] = Recording(self, model, batch, trained, options)
            finally:
                self.recording = False
        return batch, padded, self.recordings[key].replay(batch, trained)
