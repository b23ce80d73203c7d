"""Classes predicted by the backbone's own language model: --predict-with mlm."""

from typing import Any

import torch
from torch import Tensor, nn

OTHER_WORDS = "other_words"


class VerbaliserHead(nn.Module):
    """The frozen LM head's logits of a word for each class, at ``<mask>``.

        h = state at <mask>,  z = W_E LN(gelu(W h + b)) + b_v,  logit of class c = z[word of c]

    It stands where the classification head does and has no parameters of its own.

    Args:
        lm_head: RoBERTa's, whose W_E are the word embeddings.
        words: C, the token of each class's word.
        all_words: whether the loss is over the whole vocabulary: then the pass's ``extra`` says how much is left for
            ``other_words``, B: logsumexp of z less that of the C logits. Added to the cross entropy of the C logits it
            makes that of z.
    """

    words: Tensor

    def __init__(self, lm_head: nn.Module, words: list[int], all_words: bool):
        super().__init__()
        self.parts = (lm_head,)  # in a tuple, so that they stay the encoder's alone
        self.all_words = all_words
        self.register_buffer("words", torch.tensor(words), persistent=False)

    def forward(self, features: Tensor, mask_index: Tensor | None, extra: dict[str, Any], **unused: Any) -> Tensor:
        """B x T x d features, with B indices of ``<mask>`` -> B x C logits."""
        assert mask_index is not None
        states = features[torch.arange(len(features), device=features.device), mask_index]
        (lm_head,) = self.parts
        logits = lm_head(states)
        chosen = logits[:, self.words]
        if self.all_words:
            extra[OTHER_WORDS] = logits.float().logsumexp(1) - chosen.float().logsumexp(1)
        return chosen
