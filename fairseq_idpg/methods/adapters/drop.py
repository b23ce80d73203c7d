"""AdapterDrop: no adapters in the first layers.

Paper: "AdapterDrop: On the Efficiency of Adapters in Transformers" (Rücklé et al., EMNLP 2021),
https://arxiv.org/abs/2010.11918

Differs from the paper in: depths other than 12 layers keep its proportion of 5. The LayerNorms stay frozen, as with
``adapter``. With --adapter-drop-random AdapterHub draws 0 to L - 2 and evaluates with all adapters: --adapter-drop 0.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...backbone.injection import UNCHANGED, Injection
from ...errors import InputError
from ..base import Geometry
from ..options import Filled, option
from ..registry import register_preset
from .bottleneck import BottleneckConfig, Houlsby


@dataclass
class AdapterDropConfig(BottleneckConfig):
    adapter_drop: Filled[str] = option(
        "auto", "the first n layers have no adapters: a number, or 'auto', 5 of 12, 10 of 24"
    )
    adapter_drop_random: Filled[bool] = option(
        False,
        "draw n for each training batch, from 0 to the highest layer with adapters, which always has its own; "
        "--adapter-drop is then the n of evaluation",
    )


class AdapterDrop(Houlsby):
    """``adapter`` in the layers from n on, counted from 0; the layers below have none or, if n is drawn, skip theirs.

    Below layer n the frozen backbone runs without gradient. Trainable parameters: 2 (L - n) (2 d m + m + d), or
    2 L (2 d m + m + d) if n is drawn.
    """

    config = AdapterDropConfig

    def __init__(self, cfg: AdapterDropConfig, geometry: Geometry):
        # n, which the base needs for ``layers_of``; what is not a number leaves no layer
        text = str(cfg.adapter_drop)
        number = int(text) if text.isdecimal() else geometry.layers
        self.without = 5 * geometry.layers // 12 if text == "auto" else number
        super().__init__(cfg, geometry)
        self.redrawn = bool(cfg.adapter_drop_random)

    def layers_of(self, cfg: AdapterDropConfig, geometry: Geometry) -> tuple[int, ...]:
        layers = super().layers_of(cfg, geometry)
        with_adapters = tuple(layer for layer in layers if layer >= self.without)
        if not with_adapters:
            raise InputError(f"--adapter-drop {cfg.adapter_drop} leaves no adapters: give auto or 0 to {layers[-1]}")
        return layers if cfg.adapter_drop_random else with_adapters

    def injection(self, representation: Tensor | None) -> Injection:
        injection, without = super().injection(representation), self.without
        if self.redrawn and self.training:
            # at most the highest layer, since a batch without adapters would train nothing; drawn on the CPU, so that
            # no device is waited for
            without = int(torch.randint(self.layers[-1] + 1, (), device="cpu"))
        return replace(injection, sublayer=lambda layer: UNCHANGED if layer < without else injection.sublayer(layer))

    def describe(self) -> str:
        drawn = f", from a layer on that each batch draws, in evaluation from layer {self.without} on"
        return super().describe() + (drawn if self.redrawn else "")


register_preset("adapter-drop", AdapterDrop, adapter_hidden_size=16)
