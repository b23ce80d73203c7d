"""What every adapter method has in common: which layers have adapters, how large they are, how they enter."""

import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from torch import Tensor, nn

from ...backbone.cpu import QuickDropout
from ...backbone.encoder import activation
from ...backbone.injection import UNCHANGED, Changes, Injection
from ..base import Geometry, Method
from ..options import Filled, TrueFalse, option, parse_layers

Activation: Any = ChoiceEnum(utils.get_available_activation_fns())
Branch = Callable[[Tensor], Tensor]  # T x B x d -> T x B x d


@dataclass
class AdapterConfig(FairseqDataclass):
    """Options of every adapter method."""

    adapter_hidden_size: Filled[int] = option(16, "hidden size m of an adapter", least=1)
    adapter_layers: Filled[str] = option("all", "layers with adapters: 'all' or a list such as 0,4,8")
    adapter_activation: Filled[Activation] = option("gelu", "activation of an adapter's hidden layer")
    adapter_dropout: Filled[float] = option(
        0.0,
        "dropout on an adapter's output; with the compacters on its hidden layer too, with parallel ones there alone",
        changeable=True,
        least=0,
        below=1,
    )
    train_layer_norms: Filled[TrueFalse] = option(
        "false", "train every LayerNorm of the backbone besides the adapters (and save them)"
    )


class AdapterMethod(Method):
    """N adapters, each drop(act(x W_down + b_down) W_up + b_up), in their order through the encoder.

    The parameters of all adapters are stacked, so that a method makes all its matrices at once.
    """

    slots: tuple[str, ...] = ("sublayer",)
    drops_hidden, drops_output = False, True  # where dropout falls
    stands = "after"  # where an adapter is, seen from its sublayer, for the log

    def __init__(self, cfg: AdapterConfig, geometry: Geometry):
        super().__init__()
        self.hidden, self.width = cfg.adapter_hidden_size, geometry.width
        self.layers = self.layers_of(cfg, geometry)
        self.trains_layer_norms = str(cfg.train_layer_norms) == "true"
        self.activation = activation(str(cfg.adapter_activation))
        self.dropout = QuickDropout(cfg.adapter_dropout)
        self.sublayers = self.sublayers_of(cfg)
        self.count = len(self.sublayers) * len(self.layers)
        # zero at the start unless a subclass draws them
        self.down_bias = nn.Parameter(torch.zeros(self.count, self.hidden))
        self.up_bias = nn.Parameter(torch.zeros(self.count, self.width))

    def layers_of(self, cfg: AdapterConfig, geometry: Geometry) -> tuple[int, ...]:
        """Return the layers with adapters, in their order."""
        return parse_layers("--adapter-layers", str(cfg.adapter_layers), geometry.layers)

    def sublayers_of(self, cfg: AdapterConfig) -> tuple[str, ...]:
        """Return names of the sublayers with an adapter, in their order."""
        return "attention", "FFN"

    @abstractmethod
    def matrices(self) -> tuple[Tensor, Tensor]:
        """W_down (N x d x m) and W_up (N x m x d), to be multiplied from the right, for one forward pass."""

    def projections(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """W_down, b_down (N x m), W_up and b_up (N x d) for one forward pass."""
        down, up = self.matrices()
        return down, self.down_bias, up, self.up_bias

    def attach(self, *branches: Branch) -> Changes:
        """Return how one layer's adapters enter: f' = f + adapter(f) after attention and after the feed-forward."""
        after_attention, after_ffn = (lambda f, x, layer_norm, b=branch: f + b(f) for branch in branches)
        return after_attention, after_ffn

    def injection(self, representation: Tensor | None) -> Injection:
        """All matrices now, an adapter's work when its layer is reached."""
        # the adapters of layer i are those from i * each on
        branches, each = self.branches(), len(self.sublayers)
        pairs = {layer: self.attach(*branches[i * each : (i + 1) * each]) for i, layer in enumerate(self.layers)}
        return Injection(sublayer=lambda layer: pairs.get(layer, UNCHANGED))

    def trains(self, name: str) -> bool:
        return self.trains_layer_norms and bool(re.search("layer_?norm", name))

    def without_effect(self, cfg: Any) -> dict[str, str]:
        trained = "--no-freeze-backbone trains the LayerNorms in any case: leave it out"
        return {"train_layer_norms": trained} if cfg.no_freeze_backbone else {}

    def branches(self) -> list[Branch]:
        """Return the N adapters of one forward pass."""
        # unbind, not indexing: its gradient is one stack instead of N tensors of the whole size
        return [partial(self.adapter, *parts) for parts in zip(*(stacked.unbind() for stacked in self.projections()))]

    def adapter(self, down: Tensor, down_bias: Tensor, up: Tensor, up_bias: Tensor, x: Tensor) -> Tensor:
        """drop(act(x W_down + b_down) W_up + b_up): T x B x d -> T x B x d."""
        hidden = self.activation(F.linear(x, down.t(), down_bias))  # T x B x m
        if self.drops_hidden:
            hidden = self.dropout(hidden)
        out = F.linear(hidden, up.t(), up_bias)
        return self.dropout(out) if self.drops_output else out

    def describe(self) -> str:
        layers = ",".join(map(str, self.layers))
        where = f"{self.stands} {' and '.join(self.sublayers)}"
        return f"adapters: {where} of layers {layers}; hidden size {self.hidden}"
