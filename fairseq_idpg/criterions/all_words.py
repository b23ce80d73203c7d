"""The loss over the whole vocabulary, of fairseq's criterion for classes.

    -log softmax(z over all words)[word of the class] = cross entropy of the classes' logits + what other words take

The criterion drops what a pass gives besides its logits, the ``extra`` with the other words; ``LastPass`` keeps it.
"""

from typing import Any

from torch import Tensor

from ..models.verbaliser_head import OTHER_WORDS


class AllWords:
    """A criterion called as ``criterion`` is, whose loss counts the other words of a masked language model, too.

    Accuracy and the like are still those of the classes alone.
    """

    def __init__(self, criterion: Any):
        self.criterion = criterion

    def __call__(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
        last = LastPass(model)
        loss, sample_size, log = self.criterion(last, sample)
        others = last.extra[OTHER_WORDS].sum()
        return loss + others, sample_size, {**log, "loss": log["loss"] + others.detach()}


class LastPass:
    """A model that keeps the logits and the ``extra`` of its last pass, called as the model is."""

    logits: Tensor

    def __init__(self, model: Any):
        self.model = model
        self.extra: dict[str, Any] = {}

    def __call__(self, **inputs: Any) -> tuple[Tensor, dict[str, Any]]:
        self.logits, self.extra = self.model(**inputs)
        return self.logits, self.extra

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)
