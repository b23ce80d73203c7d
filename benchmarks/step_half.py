"""Training in half precision as fairseq's --fp16 and --bf16 do it, by fairseq's own optimizer around torch's Adam.

The whole model is in half precision, frozen weights too; Adam works on float32 copies of what is trained and on nothing
else. With float16 the loss is scaled, dynamically, and a step whose gradients overflow is skipped. fairseq lays the
copies out in one long tensor with --fp16 unless --fp16-no-flatten-grads; here they are one for each parameter.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch
from fairseq.dataclass.configs import CommonConfig, DistributedTrainingConfig, OptimizationConfig
from fairseq.optim import FairseqOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer
from torch import Tensor, nn


class TorchAdam(FairseqOptimizer):
    """The Adam of the float32 steps, where fairseq would take its own."""

    def __init__(self, parameters: list[nn.Parameter], rate: float):
        super().__init__(None)
        self._optimizer = torch.optim.Adam(parameters, lr=rate)


class HalfPrecision:
    """Updates ``trained``, parameters in half precision.

    Attributes:
        masters: their float32 copies, which Adam updates.
        skipped: steps whose gradients overflowed.
    """

    def __init__(self, trained: list[nn.Parameter], rate: float):
        cfg = SimpleNamespace(
            common=CommonConfig(bf16=trained[0].dtype == torch.bfloat16),
            optimization=OptimizationConfig(),
            distributed_training=DistributedTrainingConfig(distributed_world_size=1),
            optimizer=None,
        )
        self.masters = FP16Optimizer.build_fp32_params(None, trained, flatten=False)
        self.optimizer = FP16Optimizer(cfg, trained, TorchAdam(self.masters, rate), self.masters)
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
