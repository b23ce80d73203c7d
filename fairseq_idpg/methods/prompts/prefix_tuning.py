"""Prefix tuning, and MAM, which joins it with a parallel adapter.

prefix-tuning: "Prefix-Tuning: Optimizing Continuous Prompts for Generation" (Li and Liang, ACL 2021),
https://arxiv.org/abs/2101.00190: t keys and t values in front of those of every layer, made by one network from t rows
E: (K_1, V_1, ..., K_L, V_L) = W2 tanh(W1 E + b1) + b2, h hidden units, 512 in the authors' code
(https://github.com/XiangLi1999/PrefixTuning). Trained: t d + d h + h + 2 L d (h + 1) numbers; folded: 2 L t d. t = 20
is ours: the paper finds 10 best for tables and 200 for summaries, and has no classification. E starts from N(0, 1), the
network as torch draws it. The paper's ablations are options:
- without network, rows from N(0, 1): --prompt-reparameterization none --prompt-init standard-normal;
- embedding-only: --prompt-insertion add --prompt-layers first;
- infix, [x; INFIX; y]: --prompt-insertion replace --prompt-position 2, in front of the second sentence.

mam: "Towards a Unified View of Parameter-Efficient Transfer Learning" (He et al., ICLR 2022),
https://arxiv.org/abs/2110.04366: a prefix, and the scaled parallel adapter beside the feed-forward. t = m = 16 and
h = 800 are those of the GLUE script in https://github.com/jxhe/unify-parameter-efficient-tuning, whose s is 2; s = 4
here is the paper's for XSum. ``run_scripts/README.md`` has its prefix with LoRA: alpha = 204 and 408 in its scripts.

Differs from the papers in:
- the text keeps the positions that it has without a prefix, as in He et al.'s code; peft shifts them. P-tuning v2's
  code, not theirs, drops 0.1 of keys and values: --prefix-dropout 0.1.
- infix: keys and values have no position, so only rows of the input can stand behind a sentence. They replace the
  states in their places; the released code adds trained keys and values to theirs. Both sentences see them here; in a
  language model only y does.
- mam: the released code builds three networks, and two adapters a layer, of which RoBERTa uses one each.
"""

from functools import partial

from ..adapters.parallel import ParallelAdapters
from ..registry import register_preset
from .task_prompts import TaskPrompts

prefix_tuning = partial(
    register_preset,
    method=TaskPrompts,
    prompt_layers="all",
    prompt_insertion="key-value",
    prompt_reparameterization="prefix-mlp",
)
prefix_tuning("prefix-tuning", prompt_length=20, reparameterization_hidden_size=512)
prefix_tuning(
    "mam",
    beside=(ParallelAdapters,),
    prompt_length=16,
    reparameterization_hidden_size=800,
    adapter_activation="relu",
    adapter_dropout=0.1,
    adapter_scale="4",
)
