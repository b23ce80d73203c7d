"""Parallel adapters: beside a sublayer, from its input, or beside each head of attention, from the head's own queries.

Paper: "Towards a Unified View of Parameter-Efficient Transfer Learning" (He et al., ICLR 2022),
https://arxiv.org/abs/2110.04366, Table 1: parallel adapter (s = 1), scaled parallel adapter, and multi-head parallel
adapter, of which it says only that it changes what prefix tuning changes, the outputs of the heads, at the same size.
Code: https://github.com/jxhe/unify-parameter-efficient-tuning (``MHAdapter_Layer`` beside heads)

Differs from the released code in:
- beside attention the adapter is added to the sublayer's output, as in the paper's table. The code's stands in front of
  the output projection, behind another LayerNorm and without s; on RoBERTa it stops with an error.
- one adapter a layer is built, not two of which one is used.
- s is 1 or 4 in the presets; the code's GLUE script takes s = 2 and does not train the head. m = 16 is that script's.
- all start with W_up = 0, as the code's scaled ones; its scripts draw the others' matrices from N(0, 0.02^2).
- the code's sequential adapter behind attention has a LayerNorm in front and stands before the sublayer's dropout.
- beside heads the code has another LayerNorm in front, and draws both matrices from N(0, 0.02^2); here W_down starts
  uniform in ±1/sqrt(w) and W_up at 0. The code also calls ``cross_attn_relu`` multi-head adapter:
  ReLU(q K^T / sqrt(w)) V, where a prefix's network makes K and V.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from ...backbone.injection import NO_ADDITIONS, Additions, Injection
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
    adapter_scale: Filled[str] = option(
        "1", "factor s of a parallel adapter: a number, or 'learned', one for each adapter, 1 at the start"
    )


@dataclass
class ParallelConfig(ScaledConfig):
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
        """Return s times weights N x ..., which costs less than s times the outputs that they make."""
        if isinstance(self.scale, float):
            return tensor if self.scale == 1 else self.scale * tensor
        # a learned s, one for each of the N adapters
        return self.scale.view(-1, *[1] * (tensor.dim() - 1)) * tensor

    def projections(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.down, self.down_bias, self.scaled(self.up), self.scaled(self.up_bias)


class ParallelAdapters(ScaledAdapters):
    """f' = f + s (W_up ReLU(W_down x + b_down) + b_up), x the input of the sublayer whose output is f: LN(x + f').

    With ``--adapter-reads output`` f replaces the x that is multiplied: the paper's sequential adapter.
    ``down``: N x d x m, uniform in ±1/sqrt(d) (Kaiming, as LoRA's A); ``up``: N x m x d, 0; N = L, or 2 L with both
    sublayers. Trainable parameters: N (2 d m + m + d), and N of a learned s.
    """

    config = ParallelConfig

    def __init__(self, cfg: ParallelConfig, geometry: Geometry):
        self.sublayers = PLACES[str(cfg.adapter_place)]  # the base counts its adapters by them
        super().__init__(cfg, geometry)
        self.sequential = str(cfg.adapter_reads) == OUTPUT
        self.stands = "after" if self.sequential else "beside"
        down = torch.empty(self.count, self.width, self.hidden)
        self.down = nn.Parameter(down.uniform_(-(self.width**-0.5), self.width**-0.5))
        self.up = nn.Parameter(torch.zeros(self.count, self.hidden, self.width))

    def change(self, branch: Branch, f: Tensor, x: Tensor, layer_norm: nn.Module) -> Tensor:
        return f + branch(f if self.sequential else x)


class MultiHeadAdapters(ScaledAdapters):
    """head_h' = head_h + s (W_up,h ReLU(W_down,h q_h + b_down,h) + b_up,h), in front of the output projection.

    q_h = W_q,h x + b_q,h are the frozen queries of head h, w = d/H wide. ``down``: L x H x w x m, uniform in
    ±1/sqrt(w); ``up``: L x H x m x w, 0; ``down_bias``: L x H x m. Trainable parameters: L (2 d m + H m + d), and L of
    a learned s.
    """

    slots = ("projection",)
    sublayers = ("attention",)
    stands = "beside the heads of"

    def __init__(self, cfg: ScaledConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        self.heads = geometry.heads
        within = self.width // self.heads
        down = torch.empty(self.count, self.heads, within, self.hidden)
        self.down = nn.Parameter(down.uniform_(-(within**-0.5), within**-0.5))
        self.up = nn.Parameter(torch.zeros(self.count, self.heads, self.hidden, within))
        self.down_bias = nn.Parameter(torch.zeros(self.count, self.heads, self.hidden))

    def injection(self, representation: Tensor | None) -> Injection:
        additions = {layer: Additions(heads=branch) for layer, branch in zip(self.layers, self.branches())}
        return Injection(projection=lambda layer: additions.get(layer, NO_ADDITIONS))

    def adapter(self, down: Tensor, down_bias: Tensor, up: Tensor, up_bias: Tensor, x: Tensor) -> Tensor:
        """``x``: the queries of all heads, side by side; ``down``: H x w x m, ``up``: H x m x w."""
        # a batched product: one small network for each head
        by_head = x.view(-1, self.heads, down.size(1)).transpose(0, 1)  # H x T*B x w
        hidden = self.dropout(self.activation(torch.baddbmm(down_bias[:, None], by_head, down)))
        return torch.bmm(hidden, up).transpose(0, 1).reshape(x.shape) + up_bias


parallel = partial(register_preset, adapter_activation="relu", adapter_dropout=0.1)
parallel("adapter-parallel", method=ParallelAdapters)
parallel("adapter-scaled-parallel", method=ParallelAdapters, adapter_scale="4")
parallel("adapter-multihead-parallel", method=MultiHeadAdapters)
