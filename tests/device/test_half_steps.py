"""Every preset in half precision without a GPU: fairseq's optimizers step on the halves of a CPU."""

import functools
from typing import Any
from unittest import mock

import pytest
import torch
from fairseq import utils
from fairseq.modules import gelu as stock_gelu
from fairseq.optim import FP16Optimizer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fairseq_idpg.backbone.encoder import gelu
from fairseq_idpg.methods.registry import PRESETS
from tests.optim.test_half_precision import everything, same

from .cases import CASES
from .steps import batch, started, step

FP16 = {"fp16": True, "fp16_no_flatten_grads": True, "fp16_scale_window": 2}
BF16, NAN = {"bf16": True}, float("nan")
HALVES = {"float16": (torch.float16, FP16, 0.01), "bfloat16": (torch.bfloat16, BF16, 0.05)}  # and how far losses may be
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0}
NOTHING_DRAWN = {  # what a method draws in training, beside dropout
    "smop": {"smop_noise": "none"},
    **{name: {"generator_dropout": 0.0} for name in ("lpt-npg", "lpt-mppg", "lpt-appg")},
}

# whose gradient, 1e-11 for random weights, is 0 in float16 with fairseq's loss scale of 128
UNDERFLOWS = {"id-spam": {f"method.generators.0.{name}.weight" for name in ("query", "key")}}


def all_of(trainer) -> list[Any]:
    return everything(trainer.optimizer, trainer.model.parameters())


def is_skipped(trainer, samples) -> bool:
    """Whether an update is left out.

    fairseq skips it on a GPU alone (fairseq/trainer.py, train_step: torch.tensor(0.0).cuda()), so this is said to be
    one.
    """
    on_a_gpu = mock.patch.object(trainer, "cuda", True), mock.patch("torch.Tensor.cuda", lambda tensor: tensor)
    with on_a_gpu[0], on_a_gpu[1], mock.patch.object(utils, "move_to_cuda", lambda sample: sample):
        return step(trainer, samples) is None


def overflow(trainer, samples) -> None:
    """A batch whose gradients are no halves any more: the loss scale is far too large for it."""
    scale, trainer.optimizer.scaler.loss_scale = trainer.optimizer.scaler.loss_scale, 2.0**60
    assert is_skipped(trainer, samples) and trainer.optimizer.scaler.loss_scale == 2.0**59
    trainer.optimizer.scaler.loss_scale = scale / 2


def of(place, preset, common):
    """The trainer of a preset, without whatever is drawn otherwise in another precision."""
    options = {**NO_DROPOUT, **CASES[preset], **NOTHING_DRAWN.get(preset, {})}
    return started(place, common=common, optimization={"lr": [0.01]}, **options)


@functools.cache
def exact_losses(place, preset) -> list[float]:
    trainer = of(place, preset, {})
    samples = batch(trainer)
    return [step(trainer, samples)["loss"] for _ in range(2)]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_trains_skips_and_goes_on(place, tmp_path, preset, half):
    dtype, common, tolerance = HALVES[half]
    whole = of(place, preset, common)
    samples = batch(whole)
    assert isinstance(whole.optimizer, FP16Optimizer)
    before = all_of(whole)
    losses = [step(whole, samples)["loss"] for _ in range(2)]
    assert losses == pytest.approx(exact_losses(place, preset), abs=tolerance)
    after = all_of(whole)
    names = [name for name, p in whole.model.named_parameters() if p.requires_grad]
    still = {name for name, one, other in zip(names, before[1], after[1]) if same(one, other)}
    assert still <= (UNDERFLOWS.get(preset, set()) if half == "float16" else set())
    assert {weight.dtype for weight in after[1]} == {torch.float32}
    trained = [p.detach() for p in whole.model.parameters() if p.requires_grad]
    assert [p.dtype for p in trained] == [dtype] * len(trained)
    assert all(torch.equal(p, weight.to(dtype)) for p, weight in zip(trained, after[1]))
    if half == "float16":
        assert whole.optimizer.scaler.loss_scale == 256  # doubled after two good updates
        overflow(whole, samples)
        assert same(all_of(whole)[:3], after[:3]) and whole.get_num_updates() == 2
        assert whole.optimizer.scaler.loss_scale == 128
    step(whole, samples)
    whole.consolidate_optimizer()
    whole.save_checkpoint(str(tmp_path / "x.pt"), {"epoch": 1})
    resumed = of(place, preset, common)
    resumed.load_checkpoint(str(tmp_path / "x.pt"))
    assert resumed.get_num_updates() == 3
    assert step(whole, samples)["loss"] == step(resumed, samples)["loss"]
    assert same(all_of(whole), all_of(resumed))
    (tmp_path / "x.pt").unlink()


@pytest.mark.parametrize("common", [FP16, {"fp16": True, "memory_efficient_fp16": True}], ids=["fp16", "efficient"])
def test_a_nan_loss_with_a_loss_scale_is_skipped_and_training_goes_on(place, common):
    """Without a scale the run ends: tests/cli/test_bad_input.py."""
    trainer = started(place, "prompt-tuning", common=common)
    samples, before, scale = batch(trainer), all_of(trainer), trainer.optimizer.scaler.loss_scale
    compute = trainer.criterion.forward
    with mock.patch.object(trainer.criterion, "forward", lambda *given: (compute(*given)[0] * NAN, 1, {})):
        assert is_skipped(trainer, samples)
    assert same(all_of(trainer)[:2], before[:2]) and trainer.optimizer.scaler.loss_scale == scale / 2
    assert step(trainer, samples)["loss"] > 0 and not same(all_of(trainer)[:2], before[:2])


class Made(TorchDispatchMode):
    """Collects the shapes of the float32 tensors that operations make, those of the backward pass too."""

    def __init__(self):
        super().__init__()
        self.shapes = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.shapes |= {leaf.shape for leaf in tree_leaves(result) if getattr(leaf, "dtype", None) == torch.float32}
        return result


@pytest.mark.parametrize("more", [{}, {"memory_efficient_bf16": True}], ids=["", "memory-efficient"])
@pytest.mark.parametrize("preset", ["prompt-tuning", "m-idpg-phm", "lora"])
def test_frozen_weights_cost_two_bytes_a_number(place, preset, more):
    """They have no float32 copy, not for a moment, no gradient, and no state of the optimizer."""
    trainer = started(place, common={**BF16, **more}, checkpoint_activations=True, **CASES[preset])
    weights = list(trainer.model.parameters())
    frozen, trained = ([p for p in weights if p.requires_grad is wanted] for wanted in (False, True))
    samples = batch(trainer)
    with Made() as made:  # the optimizer, too, is made in the first step
        for _ in range(2):
            step(trainer, samples)
    assert {p.dtype for p in frozen} == {torch.bfloat16} and all(p.grad is None for p in frozen)
    assert not {p.shape for p in frozen if p.dim() > 1} & (made.shapes - {p.shape for p in trained})
    inner = trainer.optimizer.optimizer
    held = [p for group in inner.param_groups for p in group["params"]]
    moments = [state[name] for state in inner.state.values() for name in ("exp_avg", "exp_avg_sq")]
    numbers = sum(p.numel() for p in trained)
    assert [sum(t.numel() for t in tensors) for tensors in (held, moments)] == [numbers, 2 * numbers]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gelu_of_every_half_is_fairseqs_on_a_gpu(dtype):
    numbers = torch.arange(-(2**15), 2**15, dtype=torch.int32, device="cuda").to(torch.int16).view(dtype)
    numbers = numbers[numbers.isfinite()]
    found = []
    for function in (gelu, stock_gelu):
        x = numbers.clone().requires_grad_()
        function(x).backward(torch.linspace(-2, 2, len(x), device="cuda").to(dtype))
        found.append([function(x).detach(), x.grad])
    for ours, theirs in zip(*found):
        torch.testing.assert_close(ours, theirs, rtol=2 * torch.finfo(dtype).eps, atol=torch.finfo(dtype).tiny)
