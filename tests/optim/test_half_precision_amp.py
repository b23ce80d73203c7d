"""Automatic mixed precision (``--amp``): the scale of the loss goes on where it was, and changes no update."""

import pytest
import torch
from fairseq.optim.amp_optimizer import AMPOptimizer

from fairseq_idpg.optim.half_precision import KeptHalfPrecision
from fairseq_idpg.training.fairseq_patches import bind_optimizer
from tests.optim.test_half_precision import carried, config

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:torch.cuda.amp.GradScaler is enabled")


def made(values, kind="adam", **options):
    parameter = torch.nn.Parameter(torch.tensor(values))
    parameter.param_group = "method/weight"
    optimizer = AMPOptimizer.build_optimizer(config(kind, amp=True), [parameter])
    optimizer._grad_scaler = torch.amp.GradScaler("cpu", **options)
    bind_optimizer(optimizer)
    return optimizer, parameter


def step(optimizer, parameter, factor=1.0):
    optimizer.zero_grad()
    optimizer.backward((parameter * factor).sum())
    optimizer.clip_grad_norm(0.0)
    optimizer.step()


def test_amp_keeps_its_scale(caplog):
    options = {"init_scale": 64.0, "growth_interval": 3}
    whole, section = made([1.0, 1.0], **options), KeptHalfPrecision()
    section.before_step(whole[0], 0)
    for factor in (1.0, float("inf"), 1.0, 1.0):
        step(*whole, factor)
    resumed, restored = made([1.0, 1.0], **options), KeptHalfPrecision()
    restored.load_state_dict(carried(section.state_dict()))
    restored.before_step(resumed[0], 4)
    for _ in range(3):
        assert resumed[0].scaler.state_dict() == whole[0].scaler.state_dict()
        step(*whole), step(*resumed)
    assert whole[0].scaler.get_scale() == 64.0 and "the checkpoint lacks" not in caplog.text
    KeptHalfPrecision().before_step(made([1.0])[0], 4)
    assert "lacks loss scaler's counters" in caplog.text


@pytest.mark.parametrize("scale", [1.0, 2.0**20])
@pytest.mark.parametrize("kind", ["adam", "grouped_adam"])
def test_an_update_does_not_depend_on_the_scale(scale, kind):
    optimizer, parameter = made([1.0, -2.0], kind, init_scale=scale)
    step(optimizer, parameter, torch.tensor([1e-3, 1e-6]))
    assert torch.allclose(parameter.grad, torch.tensor([1e-3, 1e-6]), rtol=1e-4)
    before = parameter.detach().clone()
    step(optimizer, parameter, float("inf"))
    assert torch.equal(parameter, before) and optimizer.scaler.get_scale() == scale / 2
