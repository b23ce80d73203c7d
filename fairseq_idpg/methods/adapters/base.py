"""What every adapter method has in common: which layers have adapters, how large they are, how they enter."""

import re
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
from ...backbone.injection import UNCHANGED, Injection
from ..base import Geometry, Method
from ..options import Filled, TrueFalse, dropout_option, option, parse_layers

Activation: Any = ChoiceEnum(utils.get_available_activation_fns())
Branch = Callable[[Tensor], Tensor]  # T x B x d -> T x B x d


@dataclass
class AdapterConfig(FairseqDataclass):
    adapter_hidden_size: Filled[int] = option(16, "hidden size m of an adapter", least=1)
    adapter_layers: Filled[str] = option("all", "layers with adapters: 'all' or a list such as 0,4,8")
    adapter_activation: Filled[Activation] = option("gelu", "activation of an adapter's hidden layer")
    adapter_dropout: Filled[float] = dropout_option(
        0.0, "dropout on an adapter's output; compacters drop its hidden layer too, parallel ones only that"
    )
    train_layer_norms: Filled[TrueFalse] = option("false", "also train (and save) every LayerNorm of the backbone")


class AdapterMethod(Method):
    """N adapters, each drop(act(x W_down + b_down) W_up + b_up), numbered in the order of the encoder.

    Their parameters are stacked, so that a method makes all matrices at once:
    ``down`` N x d x m, ``down_bias`` N x m, ``up`` N x m x d, ``up_bias`` N x d.
    """

    slots: tuple[str, ...] = ("sublayer",)
    sublayers: tuple[str, ...] = ("attention", "FFN")  # those of a layer that have an adapter, in their order
    drops_hidden, drops_output = False, True  # where dropout falls
    stands = "after"  # where an adapter is, seen from its sublayer, for the log
    down: Tensor
    up: Tensor

    def __init__(self, cfg: AdapterConfig, geometry: Geometry):
        super().__init__()
        self.hidden, self.width = cfg.adapter_hidden_size, geometry.width
        self.layers = self.layers_of(cfg, geometry)
        self.trains_layer_norms = str(cfg.train_layer_norms) == "true"
        self.activation = activation(str(cfg.adapter_activation))
        self.dropout = QuickDropout(cfg.adapter_dropout)
        self.count = len(self.sublayers) * len(self.layers)
        # biases start at 0, unless a subclass draws them
        self.down_bias = nn.Parameter(torch.zeros(self.count, self.hidden))
        self.up_bias = nn.Parameter(torch.zeros(self.count, self.width))

    def layers_of(self, cfg: AdapterConfig, geometry: Geometry) -> tuple[int, ...]:
        return parse_layers("--adapter-layers", str(cfg.adapter_layers), geometry.layers)

    def projections(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return W_down, b_down, W_up and b_up of all adapters for one forward pass; x is multiplied from the right."""
        return self.down, self.down_bias, self.up, self.up_bias

    def change(self, branch: Branch, f: Tensor, x: Tensor, layer_norm: nn.Module) -> Tensor:
        """Return f' = f + adapter(f), for the adapter ``branch``; see ``Change``."""
        return f + branch(f)

    def injection(self, representation: Tensor | None) -> Injection:
        """Make all matrices now; an adapter computes when its layer is reached."""
        branches, changes = iter(self.branches()), {}
        for layer in self.layers:
            here = {name: partial(self.change, next(branches)) for name in self.sublayers}
            changes[layer] = here.get("attention"), here.get("FFN")
        return Injection(sublayer=lambda layer: changes.get(layer, UNCHANGED))

    def trains(self, name: str) -> bool:
        return self.trains_layer_norms and bool(re.search("layer_?norm", name))

    def without_effect(self, cfg: Any) -> dict[str, str]:
        reason = "--no-freeze-backbone trains the LayerNorms in any case: leave it out"
        return {"train_layer_norms": reason} if cfg.no_freeze_backbone else {}

    def branches(self) -> list[Branch]:
        """Return the N adapters of one forward pass."""
        # unbind makes one gradient, a stack; indexing would make N gradients of the whole size
        return [partial(self.adapter, *parts) for parts in zip(*(stacked.unbind() for stacked in self.projections()))]

    def adapter(self, down: Tensor, down_bias: Tensor, up: Tensor, up_bias: Tensor, x: Tensor) -> Tensor:
        """drop(act(x W_down + b_down) W_up + b_up): T x B x d -> T x B x d."""
        hidden = self.activation(F.linear(x, down.t(), down_bias))  # T x B x m
        if self.drops_hidden:
            hidden = self.dropout(hidden)
        out = F.linear(hidden, up.t(), up_bias)
        return self.dropout(out) if self.drops_output else out

    def describe(self) -> str:
        where = f"{self.stands} {' and '.join(self.sublayers)} of layers {','.join(map(str, self.layers))}"
        return f"adapters: {where}; hidden size {self.hidden}"
