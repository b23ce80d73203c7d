"""What a model says of one input."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

Text = str | Sequence[str]  # a sentence, or the two of a pair


@dataclass(frozen=True)
class PromptRow:
    """A prompt row.

    Attributes:
        vector: d, on the CPU; above the input what is added to the hidden states, or replaces them or joins them, as
            ``--prompt-insertion`` says.
        words: the nearest word embeddings, nearest first: quoted words and cosines.
        layer: the layer that reads the row, counted as by ``--prompt-layers``.
    """

    vector: Tensor
    words: list[tuple[str, float]]
    layer: int = 0


@dataclass(frozen=True)
class Prediction:
    """What a model says of one input.

    Attributes:
        text: as it was given: a sentence, or the two of a pair.
        label: the most probable class; None for scores.
        probabilities: of all classes by their names, in the order of the logits; empty for scores.
        score: in the scale of the task's own scores (STS-B: 0 to 5), not that of the training; None for classes.
        features: d, the last state of ``<s>``, on the CPU, where asked for.
        prompts: the prompt rows that this input got, those of the lowest layer first, where asked for.
        cut: whether the text was too long, so that its end was not read.
    """

    text: Text
    label: str | None = None
    probabilities: dict[str, float] = field(default_factory=dict)
    score: float | None = None
    features: Tensor | None = field(default=None, repr=False, compare=False)
    prompts: list[PromptRow] | None = field(default=None, repr=False, compare=False)
    cut: bool = False

    @property
    def probability(self) -> float | None:
        """Of ``label``; None for scores."""
        return None if self.label is None else self.probabilities[self.label]

    def plain(self) -> dict[str, Any]:
        """Label, probability and probabilities, or score, ``cut`` where the text was, and words and layers of the
        prompt rows: values that JSON knows."""
        values: dict[str, Any] = {"score": self.score}
        if self.label is not None:
            values = {"label": self.label, "probability": self.probability, "probabilities": self.probabilities}
        if self.cut:
            values["cut"] = True
        if self.prompts is not None:
            values["prompts"] = [[{"word": word, "cosine": near} for word, near in row.words] for row in self.prompts]
            values["prompt_layers"] = [row.layer for row in self.prompts]
        return values
