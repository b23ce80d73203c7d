"""With a loss scale a batch whose loss is NaN is skipped; without, the run ends: tests/cli/test_bad_input.py."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from fairseq.optim.fp16_optimizer import FP16Optimizer, MemoryEfficientFP16Optimizer
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from fairseq_idpg.optim.half_precision import KeptHalfPrecision
from fairseq_idpg.tasks.task import SentencePredictionIDPGTask
from fairseq_idpg.training.fairseq_patches import clip_grad_norm

BATCH = {"net_input": {"src_tokens": torch.zeros(1, 1, dtype=torch.long)}}
NAN = float("nan")


class Steps:
    def __init__(self, kind, **common):
        cfg = OmegaConf.structured(FairseqConfig())
        cfg.optimizer = OmegaConf.structured(FairseqAdamConfig(_name="adam", lr=[0.1]))
        cfg.common.update({"fp16_no_flatten_grads": True, "fp16_scale_window": 1000, **common})
        self.weight = torch.nn.Parameter(torch.ones(2, dtype=torch.half))
        weights, adam = [self.weight], FairseqAdam(cfg.optimizer, [self.weight])
        make = FP16Optimizer.build_optimizer if kind == "fp16" else MemoryEfficientFP16Optimizer
        self.optimizer = make(cfg, weights, *([] if kind == "fp16" else [adam]))
        self.task = object.__new__(SentencePredictionIDPGTask)
        self.task.half_precision = KeptHalfPrecision()
        self.updates = 0
        self.trainer = SimpleNamespace(
            optimizer=self.optimizer, cfg=cfg, is_fsdp=False, cuda=True, get_num_updates=lambda: self.updates
        )

    def step(self, factor=1.0):
        """One update by the loss ``factor`` * sum(weight); raises what fairseq's trainer would see."""
        model = SimpleNamespace(train=lambda: None, set_num_updates=lambda n: None)
        self.optimizer.zero_grad()
        criterion = lambda model, sample: (self.weight.sum() * factor, 1, {})  # noqa: E731
        self.task.train_step(BATCH, model, criterion, self.optimizer, self.updates)
        clip_grad_norm(partial(Trainer.clip_grad_norm, self.trainer), self.trainer, 0.0)
        self.optimizer.step()
        self.updates += 1


@pytest.mark.parametrize("kind", ["fp16", "memory-efficient-fp16"])
def test_a_nan_loss_with_a_loss_scale_is_skipped_and_training_goes_on(kind):
    steps = Steps(kind, fp16_init_scale=4)
    before = steps.weight.detach().clone()
    with pytest.raises(OverflowError, match="setting loss scale to: 2"):
        steps.step(NAN)
    assert torch.equal(steps.weight, before) and steps.optimizer.scaler.loss_scale == 2
    steps.step()
    assert not torch.equal(steps.weight, before) and steps.weight.isfinite().all()
