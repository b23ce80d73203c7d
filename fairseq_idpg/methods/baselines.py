"""Presets without a method, which inject nothing: what every prompt is compared with.

head-only: the classification head alone on the frozen backbone, the baseline every prompt has to beat.
fine-tuning: the whole backbone and the head (RoBERTa, https://arxiv.org/abs/1907.11692; the paper's Table 1).
efl: fine-tuning on entailment pairs, "Entailment as Few-Shot Learner" (Wang et al., 2021),
https://arxiv.org/abs/2104.14690: data made with python -m preprocess --efl, --backbone roberta.large.mnli/model.pt.

Differs from the papers in: efl starts with a new head, not with the MNLI checkpoint's.
"""

from .registry import register_preset

register_preset("head-only")
register_preset("fine-tuning", paper="355M", trains_backbone=True)
register_preset("efl", trains_backbone=True, needs_pairs=True)
