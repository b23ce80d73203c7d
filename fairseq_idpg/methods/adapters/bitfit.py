"""BitFit: the backbone's own biases are trained, nothing is added.

Paper: "BitFit: Simple Parameter-efficient Fine-tuning for Transformer-based Masked Language-models" (Ben Zaken et al.,
ACL 2022), https://arxiv.org/abs/2106.10199

Differs from the paper in: the head is trained whole, as with every method here; weight decay falls on biases unless
--no-decay-biases is given.
"""

import re
from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import FairseqDataclass

from ..base import Geometry, Method
from ..options import Filled, TrueFalse, option
from ..registry import register_preset


@dataclass
class BitFitConfig(FairseqDataclass):
    bitfit_layer_norms: Filled[TrueFalse] = option("true", "train the biases of LayerNorms as well")


class BitFit(Method):
    """b of every W x + b in the layers (q, k, v, out, fc1, fc2), and of every LayerNorm, the embedding's too.

    The key's bias is among them, though softmax cancels it and it gets no gradient. The LM head's are not: nothing
    reads them. Trainable parameters: L (5 d + inner width) without LayerNorms, 2 L d + d more with them.
    """

    config = BitFitConfig

    def __init__(self, cfg: BitFitConfig, geometry: Geometry):
        super().__init__()
        self.layer_norms = str(cfg.bitfit_layer_norms) == "true"

    def trains(self, name: str) -> bool:
        return name.endswith(".bias") and (self.layer_norms or not re.search("layer_?norm", name))

    def without_effect(self, cfg: Any) -> dict[str, str]:
        trained = "--no-freeze-backbone trains every bias in any case: leave it out"
        return {"bitfit_layer_norms": trained} if cfg.no_freeze_backbone else {}

    def describe(self) -> str:
        return f"biases of the backbone, {'with' if self.layer_norms else 'without'} those of LayerNorms"


register_preset("bitfit", BitFit)
