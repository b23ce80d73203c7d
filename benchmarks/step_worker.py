"""The process of one case of benchmarks/step_time.py, which starts it and talks to it.

Lines of JSON. In: first {"case": {...Case}, ...Settings}, then {"run": k} for each k steps. Out: what was built, then
{"seconds": [...], "peak_mib", "skipped"} for each request; {"error"} and the end where something fails.

Batches are drawn from a seed, the same for every case. All models have a random RoBERTa of one size, a head for 2
classes, and dropout 0.1. fairseq is imported where it is used: the peers' processes do without it.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partialmethod
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from common import BOS, CLOCKS, EOS, LONGEST, MASK, PAD, SHORTEST, SPECIALS, VOCAB, Settings
from step_peers import Built, build_peer
from step_time import Case
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

HEAD = "sentence_classification_head"
HEADS = ("classification_heads", "classifier")  # in names of parameters
LEARNING_RATE = 1e-4
MIB = 2**20
PERIOD = 2**16  # of repeated draws


def batches(settings: Settings) -> list[tuple[Tensor, Tensor]]:
    """Draw tokens (B x T) and labels (B) of each step, padded to the step's longest row.

    Rows are ``<s> A </s>`` with lengths from N(mean, spread x mean), cut off at 0.3 and 1.5 times the mean.
    """
    draw, mean, count = np.random.RandomState(0), settings.length, settings.batch * settings.steps
    lengths = np.rint(draw.normal(mean, settings.length_spread * mean, count))
    lengths = np.clip(lengths, max(2, round(SHORTEST * mean)), round(LONGEST * mean)).astype(int)
    rows = [torch.from_numpy(draw.randint(SPECIALS, MASK, length)) for length in lengths]
    for row in rows:
        row[0], row[-1] = BOS, EOS
    labels = torch.from_numpy(np.random.RandomState(1).randint(0, 2, count))
    steps = (slice(start, start + settings.batch) for start in range(0, count, settings.batch))
    return [(pad_sequence(rows[step], batch_first=True, padding_value=PAD), labels[step]) for step in steps]


def prompted(tokens: Tensor, length: int) -> Tensor:
    """Insert placeholders of the prompt after ``<s>`` (position 0), as the task does."""
    block = torch.full((len(tokens), length), MASK, dtype=tokens.dtype)
    return torch.cat([tokens[:, :1], block, tokens[:, 1:]], 1)


def repeated_draws() -> Any:
    """Return a context in which PERIOD numbers of a larger tensor are drawn and repeated, where the tensor is.

    fairseq draws RoBERTa's weights on the CPU, three times. At its large size that takes longer than many GPU steps.
    """

    def repeated(tensor: Tensor, draw: Callable[..., Tensor], *args: Any, **options: Any) -> Tensor:
        count = tensor.numel()
        if tensor.is_meta:  # there are no numbers
            return tensor
        numbers = draw(tensor.new_empty(min(PERIOD, count)), *args, **options)
        return tensor.copy_(numbers.repeat(-(-count // PERIOD))[:count].view(tensor.shape))

    draws: dict[str, Any] = {name: partialmethod(repeated, getattr(Tensor, name)) for name in ("normal_", "uniform_")}
    return patch.multiple(Tensor, cpu=lambda tensor: tensor, **draws)


@contextmanager
def as_computed(settings: Settings) -> Iterator[None]:
    """Make weights on the device in their precision, so that they are nowhere in float32.

    On a CPU they are drawn in float32 first, which gives the same values in each precision.
    """
    torch.set_default_dtype(torch.float32 if settings.device == "cpu" else getattr(torch, settings.dtype))
    try:
        with torch.device(settings.device):
            yield
    finally:
        torch.set_default_dtype(torch.float32)


@cache
def word_dictionary(mask: bool = True) -> Any:
    """Return a fairseq dictionary of VOCAB symbols, or without ``<mask>``, as files of data have it."""
    from fairseq.data import Dictionary

    symbols = Dictionary()
    for i in range(VOCAB - SPECIALS - 1):
        symbols.add_symbol(f"w{i}")
    if mask:
        assert (symbols.add_symbol("<mask>"), symbols.pad()) == (MASK, PAD)
    return symbols


def build(case: Case, settings: Settings) -> Built:
    """Build the case's model, with the case's prompt length unless ``settings`` say one for all."""
    settings = replace(settings, prompt_length=settings.prompt_length or case.rows)
    makers: dict[str, Callable[[Case, Settings], Built]] = {"method": _method, "floor": _floor}
    return makers.get(case.maker, build_peer)(case, settings)


def _options(method: str, settings: Settings, **options: Any) -> Any:
    from fairseq_idpg.count import architecture
    from fairseq_idpg.methods.registry import find_preset

    if "prompt_length" in find_preset(method).defaults:
        options["prompt_length"] = settings.prompt_length
    options |= {**settings.encoder_options, "backbone": None, "layer_norm_eps": 1e-5}
    args = architecture("roberta_idpg", method, **options)
    args.max_positions = args.max_source_positions = settings.positions
    return args


def _method(case: Case, settings: Settings) -> Built:
    from fairseq_idpg.backbone.cpu import pack_linears
    from fairseq_idpg.backbone.encoder import OpenRobertaEncoder
    from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
    from fairseq_idpg.representations.kinds import GLOVE

    dropout = {} if case.dropout else {"dropout": 0.0, "attention_dropout": 0.0}
    args = _options(case.what, settings, checkpoint_activations=case.checkpointed, gpu_graphs="auto", **dropout)
    with as_computed(settings):
        encoder = OpenRobertaEncoder(args, word_dictionary())
    model = RobertaIDPGModel(args, encoder)
    model.register_classification_head(HEAD, num_classes=2)
    model.backbone_loaded = True  # a random one
    if settings.predict:
        model.merge_method()  # where it can stand in the weights
    if settings.device == "cpu" and settings.dtype == "float32":  # as the task and ``load`` do
        pack_linears(encoder.sentence_encoder.layers, trains=not settings.predict)
    word_vectors = model.method is not None and model.method.representation == GLOVE

    def arguments(tokens: Tensor) -> dict[str, Any]:
        padded = bool(tokens.eq(PAD).any())  # as the task tells it
        batch = {"src_tokens": tokens, "padded": padded, "classification_head_name": HEAD}
        if model.prompt_length:
            batch["prompted_tokens"] = prompted(tokens, model.prompt_length)
            batch["prompt_offset"] = torch.ones(len(tokens), dtype=torch.long)
        if case.cached or word_vectors:
            batch["representation"] = torch.randn(len(tokens), args.representation_width or settings.width)
        if case.cached_states:
            batch["states"] = torch.randn(tokens.size(1), len(tokens), settings.width)
        return batch

    return model, arguments, lambda result: result[0]


def _floor(case: Case, settings: Settings) -> Built:
    from fairseq.models.roberta.model import RobertaEncoder, RobertaModel

    args = _options("head-only", settings)
    with as_computed(settings):
        model = RobertaModel(args, RobertaEncoder(args, word_dictionary()))
    model.requires_grad_(False)
    model.register_classification_head(HEAD, num_classes=2)
    words = model.encoder.sentence_encoder.embed_tokens
    words.register_forward_hook(lambda module, inputs, output: output.detach().requires_grad_())

    def arguments(tokens: Tensor) -> dict[str, Any]:
        rows = prompted(tokens, settings.prompt_length or 0) if case.what == "prompted" else tokens
        return {"src_tokens": rows, "classification_head_name": HEAD}

    return model, arguments, lambda result: result[0]


def resident_mib(name: str) -> float:
    """Return ``VmHWM``, the largest, or ``VmRSS``, the present resident size of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) / 1024


def trainable(model: nn.Module) -> int:
    """Count the parameters that are trained, without the head, which every case must train."""
    sizes = {name: p.numel() for name, p in model.named_parameters() if p.requires_grad}
    head = sum(count for name, count in sizes.items() if set(HEADS) & set(name.split(".")))
    assert head, "the head is not trained"
    return sum(sizes.values()) - head


class Optimizer:
    """Adam on the trained parameters; in half precision within fairseq's own optimizer of --fp16 and --bf16.

    There the whole model is in half precision, and Adam works on float32 copies of what is trained, one for each
    parameter. With float16 the loss is scaled, dynamically, and a step whose gradients overflow is ``skipped``.
    """

    def __init__(self, trained: list[nn.Parameter]):
        self.skipped = 0
        self.half = trained[0].dtype != torch.float32
        self.optimizer: Any = torch.optim.Adam(trained, lr=LEARNING_RATE)
        if not self.half:
            return  # the peers' float32 steps do without fairseq
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
        adam._optimizer = torch.optim.Adam(copies, lr=LEARNING_RATE)
        self.optimizer = FP16Optimizer(cfg, trained, adam, copies)

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()

    def update(self, loss: Tensor) -> None:
        if not self.half:
            loss.backward()
            self.optimizer.step()
            return
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
        drawn = batches(settings)
        self.place, self.cuda = settings.device, settings.device == "cuda"
        self.dtype, self.clock = getattr(torch, settings.dtype), CLOCKS[settings.clock]
        with nullcontext() if settings.device == "cpu" else repeated_draws():
            self.model, arguments, self.logits = build(case, settings)
        self.model.to(self.dtype).to(self.place).train(not settings.predict)
        self.batches = [(self.placed(arguments(tokens)), labels.to(self.place)) for tokens, labels in drawn]
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = Optimizer(trained)
        self.stream = cycle(self.batches)
        libraries = ["torch", *([*{case.maker, "transformers"}] if case.peer else ["fairseq"])]
        self.built: dict[str, Any] = {
            "trainable": trainable(self.model),
            "built_mib": torch.cuda.memory_allocated() / MIB if self.cuda else resident_mib("VmRSS"),
            "tokens": sum(int(tokens.ne(PAD).sum()) for tokens, _ in drawn) / len(drawn),
            "hardware": torch.cuda.get_device_name() if self.cuda else "CPU",
            "libraries": {name: str(sys.modules[name].__version__) for name in libraries},
            "kept_mib": 0.0 if settings.predict else self._kept_mib(),
        }
        self.predicts = settings.predict

    def finish(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def peak_mib(self) -> float:
        return torch.cuda.max_memory_reserved() / MIB if self.cuda else resident_mib("VmHWM")

    def placed(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Move tensors to the device, and floating ones to the model's precision."""
        tensors = {name: value for name, value in arguments.items() if isinstance(value, Tensor)}
        dtypes = {name: self.dtype if value.is_floating_point() else value.dtype for name, value in tensors.items()}
        return arguments | {name: value.to(self.place, dtypes[name]) for name, value in tensors.items()}

    def _kept_mib(self) -> float:
        """Return the MiB that autograd keeps between a forward and a backward pass, besides the model and the batch."""
        arguments, labels = self.batches[0]
        batch = [value for value in (*arguments.values(), labels) if isinstance(value, Tensor)]
        # a storage by its own address: on the meta device that of its numbers is always 0
        known = {t.untyped_storage()._cdata for t in (*self.model.parameters(), *self.model.buffers(), *batch)}
        storages: dict[int, torch.UntypedStorage] = {}

        def keep(tensor: Tensor) -> None:
            # None goes to autograd: an output that its graph held would stay in memory, and in the peak
            storage = tensor.untyped_storage()  # the whole of it: a view keeps what it looks at
            storages[storage._cdata] = storage

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda nothing: nothing):
            self.loss(arguments, labels)
        return sum(storage.nbytes() for place, storage in storages.items() if place not in known) / MIB

    def loss(self, arguments: dict[str, Any], labels: Tensor) -> Tensor:
        """Compute it in float32, with the term that a method adds."""
        loss = cross_entropy(self.logits(self.model(**arguments)).float(), labels)
        method = getattr(self.model, "method", None)
        return loss + method.extra_loss() if method is not None and getattr(method, "adds_loss", None) else loss

    def step(self) -> Tensor:
        """Run forward, backward and optimizer; return the loss, or the logits of a prediction."""
        arguments, labels = next(self.stream)
        if self.predicts:
            with torch.inference_mode():
                return self.logits(self.model(**arguments))
        self.optimizer.zero_grad()
        loss = self.loss(arguments, labels)
        self.optimizer.update(loss)
        return loss.detach()

    def run(self, count: int) -> list[float]:
        """Return the seconds of each of the next steps.

        On a GPU, which the cases share, ``count`` steps go before: those that are timed find the memory that they need
        in torch's cache. It is given back afterwards.
        """
        for _ in range(count if self.cuda else 0):
            self.step()
        seconds = []
        for _ in range(count):
            self.finish()
            start = self.clock()
            result = self.step()
            self.finish()
            seconds.append(self.clock() - start)
        assert torch.isfinite(result).all(), "the loss or a logit is not finite"
        if self.cuda:
            torch.cuda.empty_cache()
        return seconds


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print goes to stderr, beside the answers
    try:
        request = json.loads(sys.stdin.readline())
        steps = Steps(Case(**request.pop("case")), Settings(**request))
        print(json.dumps(steps.built), file=answers)
        for line in sys.stdin:
            seconds = steps.run(json.loads(line)["run"])
            figures = {"seconds": seconds, "peak_mib": steps.peak_mib(), "skipped": steps.optimizer.skipped}
            print(json.dumps(figures), file=answers)
    except Exception as error:
        print(json.dumps({"error": first_line(error)}), file=answers)
        raise


if __name__ == "__main__":
    main()
