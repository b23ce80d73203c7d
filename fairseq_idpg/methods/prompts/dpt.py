"""DPT: a prompt of low rank.

Paper: "Decomposed Prompt Tuning via Low-Rank Reparameterization" (Xiao et al., Findings of EMNLP 2023),
https://arxiv.org/abs/2310.10094; code: https://github.com/XYaoooo/DPT

P = A B, A: t x b, B: b x d, both random; t = 100 and rank b = 10 in the code. Trained: b (t + d) numbers; folded: t d.

Differs from the paper in: P starts as large as other prompts, see ``LowRankNetwork``; with --prompt-init uniform A and
B start from (-0.5, 0.5), as released. A and B are kept to train on; prediction reads P.
"""

from ..registry import register_preset
from .task_prompts import TaskPrompts

register_preset(
    "dpt", TaskPrompts, prompt_length=100, prompt_reparameterization="low-rank", reparameterization_hidden_size=10
)
