"""AdaMix: several adapters at each place, one of them drawn for each batch, their mean in prediction.

Paper: "AdaMix: Mixture-of-Adaptations for Parameter-efficient Model Tuning" (Wang et al., EMNLP 2022),
https://arxiv.org/abs/2205.12410; code: https://github.com/microsoft/AdaMix (f3b6e99, ``expert_soup.py`` and
``modeling_roberta.py``). As there: m, M, one up projection (``sharing_up 1``), GELU, a draw in each layer for the whole
batch, the mean of the weights in evaluation (``inference_level 3``), and the second pass with its divergence. Folded it
has 811,392 parameters at RoBERTa-large's size, the paper's 0.8M.

Differs from the paper in:
- The adapter reads the feed-forward's output behind its dropout, and what it adds is not dropped. The released code
  drops behind the adapter. Without dropout both are the same.
- Matrices start from N(0, 0.02^2) cut at two standard deviations; released without the cut.
- The paper's mixture of LoRA, for generation, and learned weights of the adapters are not here.
- Scores below 0 stay; the released code raises them to 0 for STS-B. Its divergence of scores is 0, so that here they
  get no second pass.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from ..base import Geometry
from ..options import Filled, option
from ..registry import register_preset
from .base import AdapterMethod
from .bottleneck import BottleneckConfig, drawn_matrices

Shared: Any = ChoiceEnum(["up", "down", "none"])


@dataclass
class AdaMixConfig(BottleneckConfig):
    adamix_experts: Filled[int] = option(4, "adapters M at each place, one of which a training pass draws", least=1)
    adamix_shared: Filled[Shared] = option(
        "up", "projection of which there is one, not M: 'up', 'down', or 'none', when each side is drawn by itself"
    )
    adamix_consistency: Filled[float] = option(
        1.0,
        "factor of the symmetrised KL divergence of two training passes of a batch, each with its own draws but one "
        "M(x); added to the loss by --criterion sentence_prediction_idpg; 0: one pass. Scores (regression) have none",
        least=0,
    )


class Experts(nn.Module):
    """M Linears for each of N adapters: ``weight`` M x N x in x out, ``bias`` M x N x out."""

    def __init__(self, experts: int, weight: Tensor):
        super().__init__()
        self.weight = nn.Parameter(weight.unflatten(0, (experts, -1)))
        self.bias = nn.Parameter(torch.zeros_like(self.weight[:, :, 0]))

    def select(self, experts: list[int]) -> tuple[Tensor, Tensor]:
        """Return weight and bias of one expert for each adapter: N x in x out and N x out."""
        # unbind makes one gradient, a stack, and sends no index to the device
        weights, biases = ([expert.unbind() for expert in values.unbind()] for values in (self.weight, self.bias))
        weight, bias = ([values[m][n] for n, m in enumerate(experts)] for values in (weights, biases))
        return torch.stack(weight), torch.stack(bias)


def divergence(one: Tensor, other: Tensor) -> Tensor:
    """Return the mean over a batch of (KL(p || q) + KL(q || p)) / 2, from two passes' B x C logits."""
    p, q = (logits.float().log_softmax(-1) for logits in (one, other))
    # detached as in the released code: either divergence has a gradient through one of its logarithms
    kl = [F.kl_div(a, b.detach(), reduction="batchmean", log_target=True) for a, b in ((p, q), (q, p))]
    return (kl[0] + kl[1]) / 2


class AdaMix(AdapterMethod):
    """f' = f + W_up act(W_down f + b_down) + b_up, once per layer, after the feed-forward.

    In training W_down, b_down (and W_up, b_up unless they are shared) are those of one of M experts, drawn for each
    layer and pass. In evaluation they are the means of all M; a folded checkpoint keeps these means alone.
    Trainable parameters: L (M (d m + m) + m d + d); folded: L (2 d m + m + d).
    """

    config = AdaMixConfig
    training_only = ("experts.",)
    sublayers = ("FFN",)

    def __init__(self, cfg: AdaMixConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        self.consistency = cfg.adamix_consistency
        self.second_pass = self.consistency > 0
        self.redrawn = True  # Python draws the experts
        self.adds_loss = f"--adamix-consistency {self.consistency}" if self.second_pass else None
        self.count_of_experts = cfg.adamix_experts
        self.experts: Any = nn.ModuleDict()  # of the sides that have several
        for side, inner, outer in (("down", self.width, self.hidden), ("up", self.hidden, self.width)):
            if side == str(cfg.adamix_shared):
                setattr(self, side, nn.Parameter(drawn_matrices(cfg, self.count, inner, outer)))
                continue
            matrices = drawn_matrices(cfg, self.count_of_experts * self.count, inner, outer)
            self.experts[side] = Experts(self.count_of_experts, matrices)
            # what evaluation reads: buffers for the experts' means, instead of the base's parameter
            delattr(self, f"{side}_bias")
            self.register_buffer(side, torch.zeros(self.count, inner, outer))
            self.register_buffer(f"{side}_bias", torch.zeros(self.count, outer))
        self.fold()

    def draw(self) -> list[int]:
        """Draw an expert for each adapter, on the CPU, so that no device is waited for."""
        return torch.randint(self.count_of_experts, (self.count,), device="cpu").tolist()

    def projections(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if not self.training:
            return super().projections()  # the means, which fold() left there
        self.check_whole()
        pairs = {"down": (self.down, self.down_bias), "up": (self.up, self.up_bias)}
        for side, experts in self.experts.items():
            pairs[side] = experts.select(self.draw())
        return *pairs["down"], *pairs["up"]

    @torch.no_grad()
    def fold(self) -> None:
        """Put the means of the experts into the tensors that evaluation reads."""
        if not self.folded:
            for side, experts in self.experts.items():
                getattr(self, side).copy_(experts.weight.mean(0))
                getattr(self, f"{side}_bias").copy_(experts.bias.mean(0))

    def compare(self, one: Tensor, other: Tensor) -> None:
        self.extra = self.consistency * divergence(one, other)

    def describe(self) -> str:
        drawn = " and ".join(self.experts)
        return f"{super().describe()}, one of {self.count_of_experts} {drawn} projections drawn for each batch"


register_preset("adamix", AdaMix, adapter_hidden_size=16, adapter_init_std=0.02)
