"""ID-SPAM: a prompt from self-attention over the input embeddings.

Paper: "Leveraging Self-Attention for Input-Dependent Soft Prompting in LLMs" (Muppidi et al., ACL 2025),
https://arxiv.org/abs/2506.05629; no code was published. The paper's m is --prompt-layers with --prompt-insertion late;
m = 0 is --prompt-insertion add --prompt-layers first (with late and 0, rows stand behind the embeddings' LayerNorm,
without positions). Best are 11 to 13 of RoBERTa-large (Figure 2); middle is 13.

Where the paper leaves a choice or contradicts itself:
- biases: the text has them, the counts of its Tables 12 and 13 do not; here there are none unless --generator-bias
  true;
- the ReLU behind W_up: equation (2) has it, the text does not; here it is there unless --id-spam-output linear;
- the text resizes to d x t; here the flat vector is read as t rows;
- pads are left out of softmax and mean, since a prompt would otherwise depend on the longest example of its batch;
- its counts fit t = 5, c = 64, and not the t = 10 of its text with any c. It does not say where dropout is: on the
  rows;
- E are the token embeddings at any layer, without positions (with them: --generator-input embeddings).
  --generator-input states reads the states below the layer.
"""

from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from ...backbone.injection import States
from ..base import Geometry
from ..options import Filled, option
from ..registry import register_preset
from .state_prompts import StateGenerator, StatePromptConfig, StatePrompts

Pooling: Any = ChoiceEnum(["attention", "mean"])
Output: Any = ChoiceEnum(["relu", "linear"])


@dataclass
class IDSPAMConfig(StatePromptConfig):
    id_spam_pooling: Filled[Pooling] = option(
        "attention", "one vector of all tokens: the mean of 'attention' over them, or their 'mean' (Table 3)"
    )
    id_spam_output: Filled[Output] = option(
        "relu", "the prompt is 'relu' of the up-projection (equation 2) or 'linear' in it (the text)"
    )


class AttentionGenerator(StateGenerator):
    """W_up ReLU(W_down A), A = mean over tokens of softmax((E W_Q)(E W_K)^T / sqrt d) (E W_V), one head of width d."""

    def __init__(self, cfg: IDSPAMConfig, width: int, rows: int):
        super().__init__(cfg, width, rows)
        self.attention = str(cfg.id_spam_pooling) == "attention"
        if self.attention:
            self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))

    def read(self, states: States) -> Tensor:
        """Return A: B x d."""
        x = states.x.transpose(0, 1).contiguous()  # B x T x d; all products below keep it for the gradient
        weights = states.weights  # B x 1 x T
        if not self.attention:
            return (weights @ x)[:, 0]
        # keys and values are never made: W_K^T is applied to the queries, E and W_V to the mean of the weights
        scores = self.query(x) @ self.key.weight @ x.transpose(1, 2) * self.width**-0.5
        if states.padding is not None:
            scores = scores.masked_fill(states.padding[:, None], float("-inf"))
        return self.value((weights @ scores.softmax(-1) @ x)[:, 0])


class IDSPAM(StatePrompts):
    """P_l = drop(ReLU(W_up ReLU(W_down A_l))), see ``AttentionGenerator``.

    Parameters at one place: 3 d^2 + c d + c t d, and c + t d with biases; c = m, the generator's hidden size.
    """

    config = IDSPAMConfig
    generator = AttentionGenerator

    def __init__(self, cfg: IDSPAMConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        if str(cfg.id_spam_output) == "relu":
            self.activation = nn.ReLU()


register_preset(
    "id-spam",
    IDSPAM,
    prompt_insertion="late",
    prompt_layers="middle",
    prompt_length=5,
    generator_hidden_size=64,
    generator_sharing="S",
    generator_bias="false",
    generator_input="words",
)
