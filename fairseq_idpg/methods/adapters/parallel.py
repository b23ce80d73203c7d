"""Parallel adapters: beside a sublayer, from its input.

Paper: "Towards a Unified View of Parameter-Efficient Transfer Learning" (He et al., ICLR 2022),
https://arxiv.org/abs/2110.04366, Table 1: parallel adapter (s = 1) and scaled parallel adapter.
Code: https://github.com/jxhe/unify-parameter-efficient-tuning

Differs from the released code in:
- beside attention the adapter is added to the sublayer's output, as the paper's table has it. There it stands in front
  of the output projection, behind a LayerNorm of its own and without s; on RoBERTa it stops with an error.
- two adapters a layer are built there, of which one is used.
- s is 1 or 4 in the presets; its GLUE script takes s = 2, and leaves the head as it was drawn. m = 16 is that script's.
- all start with W_up = 0, as its scaled ones; its scripts draw the others' matrices from N(0, 0.02^2).
- its sequential adapter behind attention has a LayerNorm in front and stands before the sublayer's dropout.
"""

from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from ...backbone.injection import Change, Changes
from ..base import Geometry
from ..options import Filled, option, parse_number
from ..registry import register_preset
from .base import AdapterConfig, AdapterMethod, Branch

INPUT, OUTPUT = "input", "output"
AdapterReads: Any = ChoiceEnum([INPUT, OUTPUT])
PLACES = {"ffn": ("FFN",), "attention": ("attention",), "both": ("attention", "FFN")}
AdapterPlace: Any = ChoiceEnum(list(PLACES))


@dataclass
class ScaledConfig(AdapterConfig):
    """Options of parallel adapters, wherever they stand."""

    adapter_scale: Filled[str] = option(
        "1", "factor s of a parallel adapter: a number, or 'learned', one for each adapter, 1 at the start"
    )


@dataclass
class ParallelConfig(ScaledConfig):
    """Options of parallel adapters beside sublayers."""

    adapter_place: Filled[AdapterPlace] = option("ffn", "sublayers with a parallel adapter beside them")
    adapter_reads: Filled[AdapterReads] = option(
        INPUT, "what of its sublayer a parallel adapter reads: the 'input', or the 'output', as sequential ones do (SA)"
    )


class ScaledAdapters(AdapterMethod):
    """N adapters s W_up ReLU(W_down x + b_down) + s b_up, with dropout on the hidden layer.

    ``scale``: N, if it is learned. At the start W_up is 0, so that training begins with the untouched backbone.
    """

    config = ScaledConfig
    drops_hidden, drops_output = True, False

    def __init__(self, cfg: ScaledConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        scale = parse_number(cfg, "adapter_scale", "learned")
        self.scale = nn.Parameter(torch.ones(self.count)) if scale is None else scale

    def scaled(self, tensor: Tensor) -> Tensor:
        """s times what an adapter makes its output with, N x ...: cheaper than s times the output."""
        if isinstance(self.scale, float):
            return tensor if self.scale == 1 else self.scale * tensor
        return self.scale.view(-1, *[1] * (tensor.dim() - 1)) * tensor


class ParallelAdapters(ScaledAdapters):
    """f' = f + s (W_up ReLU(W_down x + b_down) + b_up), x the input of the sublayer whose output is f: LN(x + f').

    With ``--adapter-reads output`` f replaces the x that is multiplied: the paper's sequential adapter.

    ``down``: N x d x m, uniform in ±1/sqrt(d) (Kaiming, as LoRA's A); ``up``: N x m x d, 0; N = L, or 2 L with both
    sublayers. Trainable parameters: N (2 d m + m + d), and N of a learned s.
    """

    config = ParallelConfig

    def __init__(self, cfg: ParallelConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        self.sequential = str(cfg.adapter_reads) == OUTPUT
        self.stands = "after" if self.sequential else "beside"
        down = torch.empty(self.count, self.width, self.hidden)
        self.down = nn.Parameter(down.uniform_(-(self.width**-0.5), self.width**-0.5))
        self.up = nn.Parameter(torch.zeros(self.count, self.hidden, self.width))

    def sublayers_of(self, cfg: ParallelConfig) -> tuple[str, ...]:
        return PLACES[str(cfg.adapter_place)]

    def matrices(self) -> tuple[Tensor, Tensor]:
        return self.down, self.scaled(self.up)

    def up_biases(self) -> Tensor:
        return self.scaled(self.up_bias)

    def attach(self, *branches: Branch) -> Changes:
        enter = _behind if self.sequential else _beside
        changes = {name: enter(branch) for name, branch in zip(self.sublayers, branches)}
        return changes.get("attention"), changes.get("FFN")


def _beside(branch: Branch) -> Change:
    return lambda f, x, layer_norm: f + branch(x)


def _behind(branch: Branch) -> Change:
    return lambda f, x, layer_norm: f + branch(f)


register_preset("adapter-parallel", ParallelAdapters, adapter_activation="relu", adapter_dropout=0.1)
register_preset(
    "adapter-scaled-parallel", ParallelAdapters, adapter_activation="relu", adapter_dropout=0.1, adapter_scale="4"
)
