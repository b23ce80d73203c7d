"""Automatic mixed precision (``--amp``): the scale of the loss goes on where it was, and changes no update."""

from __future__ import annotations

import pytest
import torch
from fairseq.optim.amp_optimizer import AMPOptimizer

from fairseq_idpg.optim.half_precision import KeptHalfPrecision
from fairseq_idpg.training.fairseq_patches import bind_optimizer
from tests.optim.test_half_precision import carried, config


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:torch.cuda.amp.GradScaler is enabled")
def test_amp_keeps_its_scale(caplog):
    def made():
        optimizer = AMPOptimizer.build_optimizer(config(amp=True), [torch.nn.Parameter(torch.ones(2))])
        optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3)
        bind_optimizer(optimizer)
        return optimizer

    def step(optimizer, overflow=False):
        optimizer.zero_grad()
        (parameter,) = optimizer.fp32_optimizer.params
        optimizer.backward((parameter * (float("inf") if overflow else 1.0)).sum())
        optimizer.clip_grad_norm(0.0)
        optimizer.step()

    whole, section = made(), KeptHalfPrecision()
    section.before_step(whole, 0)
    for overflow in (False, True, False, False):
        step(whole, overflow)
    resumed, restored = made(), KeptHalfPrecision()
    restored.load_state_dict(carried(section.state_dict()))
    restored.before_step(resumed, 4)
    for _ in range(3):
        assert resumed.scaler.state_dict() == whole.scaler.state_dict()
        step(whole), step(resumed)
    assert whole.scaler.get_scale() == 64.0 and "the checkpoint lacks" not in caplog.text
    KeptHalfPrecision().before_step(made(), 4)
    assert "lacks loss scaler's counters" in caplog.text


def test_amp_on_a_cpu_has_nothing_to_keep(caplog):
    optimizer = AMPOptimizer.build_optimizer(config(amp=True), [torch.nn.Parameter(torch.ones(2))])
    section = KeptHalfPrecision()
    section.before_step(optimizer, 4)
    assert section.state_dict() == {} and "the checkpoint lacks" not in caplog.text


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:torch.cuda.amp.GradScaler is enabled")
@pytest.mark.parametrize("scale", [1.0, 128.0, 2.0**20])
@pytest.mark.parametrize("kind", ["adam", "grouped_adam"])
def test_an_update_does_not_depend_on_the_scale(scale, kind):
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    parameter.param_group = "method/weight"
    optimizer = AMPOptimizer.build_optimizer(config(kind, amp=True), [parameter])
    optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    bind_optimizer(optimizer)
    optimizer.backward((parameter * torch.tensor([1e-3, 1e-6])).sum())
    optimizer.clip_grad_norm(0.0)
    optimizer.step()
    assert torch.allclose(parameter.grad, torch.tensor([1e-3, 1e-6]), rtol=1e-4)
    before = parameter.detach().clone()
    optimizer.zero_grad()
    optimizer.backward((parameter * float("inf")).sum())
    optimizer.clip_grad_norm(0.0)
    optimizer.step()
    assert torch.equal(parameter, before) and optimizer.scaler.get_scale() == scale / 2
