"""Baselines of every prompt: presets without a method, which inject nothing, and the head on M(x) itself.

head-only: the classification head alone on the frozen backbone, which every prompt has to beat.
fine-tuning: the whole backbone and the head (RoBERTa, https://arxiv.org/abs/1907.11692; the paper's Table 1).
efl: fine-tuning on entailment pairs, "Entailment as Few-Shot Learner" (Wang et al., 2021),
https://arxiv.org/abs/2104.14690; data made with python -m preprocess --efl, --backbone roberta.large.mnli/model.pt.
head-on-representation: the classification head on M(x), which a prompt made from this M(x) has to beat. It is ours.

Differs from the papers in: efl starts with a new head, not with the MNLI checkpoint's.
"""

from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from torch import Tensor

from ..backbone.injection import Injection, States
from ..errors import InputError
from ..representations.kinds import PREVIOUS_LAYER, REPRESENTATIONS
from .base import Geometry, Method
from .options import Filled, option
from .registry import register_preset

HeadInput: Any = ChoiceEnum([kind for kind in REPRESENTATIONS if kind != PREVIOUS_LAYER])


@dataclass
class HeadOnRepresentationConfig(FairseqDataclass):
    head_input: Filled[HeadInput] = option("mean-pooled", "the M(x) that the head reads, named as by --representation")


class HeadOnRepresentation(Method):
    """logits = head(M(x)), M(x) the mean of the frozen last states, or another --head-input. It has no parameters.

    M(x), without dropout (else ``backbone`` is ``head-only``), replaces the ``<s>`` state behind the last layer. The
    head reads nothing else, so no method that injects something joins it, and layers run again only for features.
    Raise InputError with --predict-with mlm, since the LM head does not read M(x).
    """

    config = HeadOnRepresentationConfig
    slots = ("hidden",)
    hides_pass = True

    def __init__(self, cfg: HeadOnRepresentationConfig, geometry: Geometry):
        super().__init__()
        if str(getattr(cfg, "predict_with", "head")) != "head":
            raise InputError(
                "--method head-on-representation has no effect with --predict-with mlm: give --predict-with head"
            )
        self.layers = (geometry.layers - 1,)
        self.representation = str(cfg.head_input)

    def injection(self, representation: Tensor | None) -> Injection:
        sentence: Any = representation

        # the head reads the first of the T x B x d states
        def replace_first(layer: int, states: States) -> Tensor | None:
            if layer not in self.layers:
                return None
            return torch.cat([sentence.type_as(states.x)[None], states.x[1:]])

        return Injection(hidden=replace_first, insertion="whole")

    def describe(self) -> str:
        return "the head reads M(x) alone"


register_preset("head-only")
register_preset("fine-tuning", paper="355M", trains_backbone=True)
register_preset("efl", trains_backbone=True, needs_pairs=True)
register_preset("head-on-representation", HeadOnRepresentation)
