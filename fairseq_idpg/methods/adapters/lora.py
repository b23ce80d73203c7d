"""LoRA: low-rank changes of frozen matrices.

Paper: "LoRA: Low-Rank Adaptation of Large Language Models" (Hu et al., ICLR 2022), https://arxiv.org/abs/2106.09685
lora adapts the query and value projections, as the authors do; lora-all adapts all six matrices of a layer.
``predict`` adds the changes to the matrices, in memory alone, unless another method reads M(x).

Differs from the paper in: A starts as the authors' code draws it, Kaiming-uniform; the paper says Gaussian.
"""

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from fairseq.dataclass import FairseqDataclass
from torch import Tensor, nn

from ...backbone.cpu import QuickDropout
from ...backbone.injection import NO_ADDITIONS, NOTHING, Injection
from ...errors import InputError
from ..base import Geometry, Method
from ..options import Filled, dropout_option, option, parse_layers
from ..registry import register_preset

LINEARS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "out": "out_proj", "fc1": "fc1", "fc2": "fc2"}


@dataclass
class LoRAConfig(FairseqDataclass):
    lora_rank: Filled[int] = option(8, "rank r of each change", least=1)
    lora_alpha: Filled[float] = option(16.0, "alpha: a change counts alpha / r", above=0)
    lora_projections: Filled[str] = option(
        "q,v", f"matrices that are changed: 'all' or a list of {', '.join(LINEARS)}, such as q,v"
    )
    lora_layers: Filled[str] = option("all", "layers that are changed: 'all' or a list such as 0,4,8")
    lora_dropout: Filled[float] = dropout_option(0.0, "dropout on the input of a change")


def parse_projections(text: str) -> list[str]:
    """Turn ``q,v`` into names of Linears, in the order of a layer; InputError for an unknown one."""
    names = list(LINEARS) if text == "all" else [part.strip() for part in text.split(",")]
    if not LINEARS.keys() >= set(names):
        raise InputError(f"--lora-projections {text}: give all or a list of {', '.join(LINEARS)}, such as q,v")
    return [linear for name, linear in LINEARS.items() if name in names]


class LoRA(Method):
    """y = W x + b + alpha/r B A drop(x), for each chosen matrix W (out x in) of each chosen layer.

    ``a``: name of a Linear -> N x r x in, ``b``: name -> N x out x r, for N layers. A starts uniform in
    ±1/sqrt(in), B at 0: training begins with the untouched backbone. Trainable parameters: N r (in + out) for each
    Linear of a layer, 2 L · 2 d r for query and value.
    """

    config = LoRAConfig
    slots = ("projection",)

    def __init__(self, cfg: LoRAConfig, geometry: Geometry):
        super().__init__()
        self.rank = rank = cfg.lora_rank
        self.scale, self.dropout = cfg.lora_alpha / rank, QuickDropout(cfg.lora_dropout)
        self.layers = parse_layers("--lora-layers", str(cfg.lora_layers), geometry.layers)
        self.a, self.b = nn.ParameterDict(), nn.ParameterDict()
        for name in parse_projections(str(cfg.lora_projections)):
            inputs = geometry.inner if name == "fc2" else geometry.width
            outputs = geometry.inner if name == "fc1" else geometry.width
            bound = inputs**-0.5
            self.a[name] = nn.Parameter(torch.empty(len(self.layers), rank, inputs).uniform_(-bound, bound))
            self.b[name] = nn.Parameter(torch.zeros(len(self.layers), outputs, rank))

    def injection(self, representation: Tensor | None) -> Injection:
        if self.merged:
            return NOTHING
        # alpha / r is multiplied into B once a pass, which costs less than into each output
        additions = dict.fromkeys(self.layers, NO_ADDITIONS)
        for name in self.a:
            # unbind makes one gradient, a stack; indexing would make N gradients of the whole size
            for layer, a, b in zip(self.layers, self.a[name].unbind(), (self.scale * self.b[name]).unbind()):
                additions[layer] = additions[layer]._replace(**{name: partial(self._change, a, b)})
        return Injection(projection=lambda layer: additions.get(layer, NO_ADDITIONS))

    def _change(self, a: Tensor, b: Tensor, x: Tensor) -> Tensor:
        return F.linear(F.linear(self.dropout(x), a), b)

    @torch.no_grad()
    def merge(self, stack: nn.Module) -> None:
        """Set W <- W + alpha/r B A and inject nothing more: prediction then costs what the backbone costs."""
        if self.merged:
            return
        for name in self.a:
            for layer, a, b in zip(self.layers, self.a[name], self.b[name]):
                owner = f"layers.{layer}.self_attn" if name.endswith("_proj") else f"layers.{layer}"
                weight = stack.get_parameter(f"{owner}.{name}.weight")
                weight.add_((self.scale * b @ a).type_as(weight))
        self.merged = True

    def describe(self) -> str:
        return f"LoRA: {','.join(self.a)} of layers {','.join(map(str, self.layers))}; rank {self.rank}"


register_preset("lora", LoRA, lora_projections="q,v", lora_rank=8, lora_alpha=16.0)
register_preset("lora-all", LoRA, lora_projections="all", lora_rank=8, lora_alpha=16.0)
