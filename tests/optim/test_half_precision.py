"""Half precision and --amp: a run that was stopped and resumed goes on bit for bit, with fairseq's own optimizers."""

import copy
import io
from unittest import mock

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim.adam import FairseqAdamConfig
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer, MemoryEfficientFP16Optimizer
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from fairseq_idpg.optim.grouped_adam import GroupedAdamConfig
from fairseq_idpg.optim.half_precision import KeptHalfPrecision, float32_weights
from fairseq_idpg.training.fairseq_patches import bind_optimizer

SHAPES = [(3, 4), (5,), (2, 1, 3), (1,)]
CPU = mock.patch("torch.cuda.current_device", lambda: None)  # the only line of flat fp16 that asks for a GPU


def config(kind="adam", **common):
    cfg = OmegaConf.structured(FairseqConfig())
    options = {"adam": FairseqAdamConfig, "grouped_adam": GroupedAdamConfig}[kind]()
    cfg.optimizer = {**OmegaConf.to_container(OmegaConf.structured(options)), "_name": kind, "lr": [0.01]}
    cfg.optimizer.update({"weight_decay": 0.1, "tpu": False})
    cfg.common.update(common)
    return cfg


def carried(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


class Run:
    """The part of fairseq's trainer that changes weights, over parameters without a model."""

    def __init__(self, cfg, dtype=torch.float16, made=FP16Optimizer, checkpoint=None):
        generator = torch.Generator().manual_seed(0)
        values = [torch.randn(shape, generator=generator) for shape in SHAPES]
        values = values if checkpoint is None else checkpoint["model"]
        self.parameters = [torch.nn.Parameter(value.to(dtype)) for value in values]
        for parameter, group in zip(self.parameters, ["method/prompt", "head/weight", "head/bias", "method/prompt"]):
            parameter.param_group = group
        with CPU:
            self.optimizer = made.build_optimizer(cfg, self.parameters)
        self.section, self.updates = KeptHalfPrecision(), 0
        if checkpoint is not None:
            self.optimizer.load_state_dict(checkpoint["optimizer"])
            self.updates = checkpoint["updates"]
            self.section.load_state_dict(checkpoint["section"])

    def step(self, batch, overflow=False):
        generator = torch.Generator().manual_seed(batch)
        self.optimizer.zero_grad()
        self.section.before_step(self.optimizer, self.updates)
        loss = sum((p.float() * torch.randn(p.shape, generator=generator)).sum() for p in self.parameters)
        self.optimizer.backward(loss * (float("inf") if overflow else 1.0))
        self.optimizer.multiply_grads(1 / 3)
        try:
            self.optimizer.clip_grad_norm(0.5)
            self.optimizer.step()
            self.updates += 1
        except OverflowError:
            self.optimizer.zero_grad()

    def checkpoint(self):
        state = {"optimizer": self.optimizer.state_dict(), "section": self.section.state_dict()}
        return carried({**state, "model": [p.detach().float() for p in self.parameters], "updates": self.updates})

    def everything(self):
        return everything(self.optimizer, self.parameters)

    def goes_on(self, *updates):
        """Whether the section leaves the optimizer's weights as they are, at the steps after so many updates."""
        before = self.everything()[1]
        for number in updates:
            self.section.before_step(self.optimizer, number)
        return same(self.everything()[1], before)


def everything(optimizer, parameters):
    """All tensors and numbers on which later steps depend: halves, float32 weights, moments, the loss scaler's."""
    halves, masters = ([each.detach() for each in some] for some in (parameters, float32_weights(optimizer)))
    scaler = getattr(optimizer, "scaler", None)
    return copy.deepcopy([halves, masters, optimizer.optimizer.state_dict()["state"], vars(scaler) if scaler else {}])


def same(one, other):
    if torch.is_tensor(one):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


PRECISIONS = {
    "fp16, flat": (FP16Optimizer, torch.float16, config(fp16=True)),
    "fp16": (FP16Optimizer, torch.float16, config(fp16=True, fp16_no_flatten_grads=True)),
    "fp16, groups": (FP16Optimizer, torch.float16, config("grouped_adam", fp16=True, fp16_no_flatten_grads=True)),
    "memory-efficient fp16": (MemoryEfficientFP16Optimizer, torch.float16, config(fp16=True)),
    "bf16": (FP16Optimizer, torch.bfloat16, config(bf16=True)),
    "memory-efficient bf16": (MemoryEfficientFP16Optimizer, torch.bfloat16, config(bf16=True)),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=25)
@given(
    overflows=st.lists(st.booleans(), min_size=2, max_size=9),
    stop=st.integers(1, 8),
    window=st.integers(1, 4),
    tolerance=st.sampled_from([0.0, 0.5]),
)
def test_a_resumed_run_is_the_run_that_was_not_stopped(precision, overflows, stop, window, tolerance):
    made, dtype, cfg = PRECISIONS[precision]
    cfg.common.update({"fp16_scale_window": window, "fp16_scale_tolerance": tolerance})
    overflows = [overflow and dtype == torch.float16 and i > 0 for i, overflow in enumerate(overflows)]
    stop = min(stop, len(overflows) - 1)
    run = Run(cfg, dtype, made)
    for batch, overflow in enumerate(overflows):
        if batch == stop:
            resumed = Run(cfg, dtype, made, run.checkpoint())
        run.step(batch, overflow)
        if batch >= stop:
            resumed.step(batch, overflow)
            assert same(run.everything(), resumed.everything())


@pytest.fixture
def stopped():
    """(a run of three updates with fp16, how it was made)"""
    made, dtype, cfg = PRECISIONS["fp16"]
    cfg.common.update({"fp16_scale_window": 2, "fp16_scale_tolerance": 0.0})
    run = Run(cfg, dtype, made)
    for batch in range(3):
        run.step(batch)
    return run, (cfg, dtype, made)


def test_weights_that_are_not_the_models_are_left_aside(stopped, caplog):
    run, how = stopped
    others, reversed_, without = (run.checkpoint() for _ in range(3))
    others["model"][0].add_(1)
    reversed_["section"]["weights"].reverse()
    del without["section"]["weights"]
    for checkpoint in (others, reversed_, without):
        caplog.clear()
        resumed = Run(*how, checkpoint)
        assert resumed.goes_on(resumed.updates)
        assert "the checkpoint lacks float32 weights for this precision" in caplog.text


def test_a_reset_optimizer_starts_from_the_weights_of_the_file(stopped, caplog):
    run, (cfg, dtype, made) = stopped
    checkpoint = run.checkpoint()
    fresh = Run(cfg, dtype, made)
    for value, parameter in zip(checkpoint["model"], fresh.parameters):
        parameter.data.copy_(value)
    fresh.section.load_state_dict(checkpoint["section"])
    assert fresh.goes_on(0, 1)
    assert fresh.optimizer.scaler._iter == 0 and "the checkpoint lacks" not in caplog.text


def test_a_checkpoint_before_the_first_step_keeps_what_was_loaded(stopped):
    run, how = stopped
    assert same(Run(*how, run.checkpoint()).section.state_dict(), run.checkpoint()["section"])


def test_nothing_is_kept_without_the_optimizers_state(stopped):
    run, _ = stopped
    section = KeptHalfPrecision(saved=False)
    section.before_step(run.optimizer, 0)
    assert section.state_dict() == {}


IN_AMP = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:torch.cuda.amp.GradScaler is enabled")


def amp_of(values, kind="adam", **options):
    parameter = torch.nn.Parameter(torch.tensor(values))
    parameter.param_group = "method/weight"
    optimizer = AMPOptimizer.build_optimizer(config(kind, amp=True), [parameter])
    optimizer._grad_scaler = torch.amp.GradScaler("cpu", **options)
    bind_optimizer(optimizer)
    return optimizer, parameter


def amp_step(optimizer, parameter, factor=1.0):
    optimizer.zero_grad()
    optimizer.backward((parameter * factor).sum())
    optimizer.clip_grad_norm(0.0)
    optimizer.step()


@IN_AMP
def test_amp_keeps_its_scale(caplog):
    options = {"init_scale": 64.0, "growth_interval": 3}
    whole, section = amp_of([1.0, 1.0], **options), KeptHalfPrecision()
    section.before_step(whole[0], 0)
    for factor in (1.0, float("inf"), 1.0, 1.0):
        amp_step(*whole, factor)
    resumed, restored = amp_of([1.0, 1.0], **options), KeptHalfPrecision()
    restored.load_state_dict(carried(section.state_dict()))
    restored.before_step(resumed[0], 4)
    for _ in range(3):
        assert resumed[0].scaler.state_dict() == whole[0].scaler.state_dict()
        amp_step(*whole), amp_step(*resumed)
    assert whole[0].scaler.get_scale() == 64.0 and "the checkpoint lacks" not in caplog.text
    KeptHalfPrecision().before_step(amp_of([1.0])[0], 4)
    assert "lacks loss scaler's counters" in caplog.text


@IN_AMP
@pytest.mark.parametrize("scale", [1.0, 2.0**20])
@pytest.mark.parametrize("kind", ["adam", "grouped_adam"])
def test_an_update_does_not_depend_on_the_scale(scale, kind):
    optimizer, parameter = amp_of([1.0, -2.0], kind, init_scale=scale)
    amp_step(optimizer, parameter, torch.tensor([1e-3, 1e-6]))
    assert torch.allclose(parameter.grad, torch.tensor([1e-3, 1e-6]), rtol=1e-4)
    before = parameter.detach().clone()
    amp_step(optimizer, parameter, float("inf"))
    assert torch.equal(parameter, before) and optimizer.scaler.get_scale() == scale / 2
