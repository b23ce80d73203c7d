"""What a method is: the interface between the model and whatever is trained beside its frozen backbone.

A new method is one file in ``prompts/`` or ``adapters/``, which is found there. It holds

- a dataclass of its options, each declared with ``option``; no ``from __future__ import annotations`` there, because
  fairseq reads the types of the fields;
- a ``Method`` with these as its ``config``. ``PromptMethod`` and ``AdapterMethod`` know layers and places already: a
  prompt says what its rows are (``begin_pass``), an adapter what its matrices are (``matrices``);
- a ``register_preset`` line for each row of its paper's tables.

The command line, ``--method A+B``, checkpoints, the log, ``count`` and ``options_table`` take all they need from these.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import FairseqDataclass
from torch import Tensor, nn

from ..backbone.injection import NOTHING, Injection
from ..errors import InputError

AMONG_WORDS = {"words", "input"}  # slots below the first layer


@dataclass(frozen=True)
class Geometry:
    """What a method must know of its backbone: L layers, width d, the feed-forward's inner width and H heads."""

    layers: int
    width: int
    inner: int
    heads: int = 1

    @classmethod
    def of(cls, cfg: Any) -> "Geometry":
        """Return that of the backbone that the model's options describe."""
        return cls(cfg.encoder_layers, cfg.encoder_embed_dim, cfg.encoder_ffn_embed_dim, cfg.encoder_attention_heads)


@dataclass(frozen=True)
class WordEmbeddings:
    """The words that a run knows, for methods whose rows start from some of them.

    Attributes:
        embeddings: V x d, the backbone's word embeddings; the last symbol is <mask>.
        specials: ids below this are no words.
        encode: text -> ids.
        fingerprint: of the backbone, as checkpoints keep it; None: not known.
        symbols: V, the dictionary's; empty: not known.
    """

    embeddings: Tensor
    specials: int
    encode: Callable[[str], list[int]]
    fingerprint: Tensor | None = None
    symbols: Sequence[str] = ()


class Method(nn.Module, ABC):
    """A module built from (filled options, ``Geometry``); its parameters are trained and saved as ``method.*``.

    It enters the backbone through ``injection``, through ``trains``, or both. All but ``describe`` have a default.
    Options that make no module, such as a size of 0, end its construction with InputError.

    Attributes:
        config: dataclass of the options that the method understands.
        slots: the fields of an ``Injection`` that ``injection`` fills; no two methods of a combination share one.
        hides_pass: whether the head sees nothing of what other methods inject, so that none with slots may be joined.
        layers: those in which it fills its slots that are within the layers; see ``first_layer``.
        prompt_length: rows that the task reserves in every example; 0 when the input is not lengthened.
        representation: the kind of M(x) that ``injection`` wants, None if it wants none: a name in
            ``representations.kinds.READERS`` (``backbone``: the last ``<s>`` state), or ``glove``.
        representation_dropout: whether the backbone's dropout stays on while M(x) is computed in training.
        second_pass: whether every training pass is run twice, each with its own draws but one M(x), and the two are
            ``compare``d; the loss, and what methods add to it besides, is that of the first.
        adds_loss: the option that has ``extra_loss`` added to the loss, as it is typed; None if nothing is.
        redrawn: whether Python draws something anew for each training pass, so that no pass is like another.
        extra: what a training pass adds to the loss, from that pass until ``extra_loss`` has given it.
        training_only: beginnings of the names of those tensors that are not needed once the method is trained.
        folded: whether a checkpoint without these tensors was loaded.
        folded_remedy: what to do instead of training on from one.
        merged: whether the method stands in the backbone's weights, see ``merge``.
    """

    config: type[FairseqDataclass] = FairseqDataclass
    slots: tuple[str, ...] = ()
    hides_pass = False
    layers: tuple[int, ...] = (0,)
    prompt_length = 0
    representation: str | None = None
    representation_dropout = False
    second_pass = False
    adds_loss: str | None = None
    redrawn = False
    extra: Tensor | None = None
    training_only: tuple[str, ...] = ()
    folded = False
    folded_remedy = "train on from a checkpoint that was written without --no-save-optimizer-state"
    merged = False

    @classmethod
    def derive_options(cls, cfg: Any) -> None:
        """Put options that follow from others into ``cfg`` before the rest is filled; InputError if they contradict."""

    def injection(self, representation: Tensor | None) -> Injection:
        """Return the values of one forward pass, a field for each of ``slots``.

        Args:
            representation: M(x), B x d (word vectors: B x their width; ``last-states``: ``States``), if there is a
                ``representation``.

        Raises:
            InputError: it is trained, and the checkpoint that was loaded has left out what only training needs.
        """
        return NOTHING

    def first_layer(self, layers: int) -> int:
        """Return the first of the backbone's ``layers`` in which, or in front of which, ``injection`` changes anything.

        Counted from 0; ``layers`` where it changes none. The layers below give what they give on the text alone.
        """
        if not self.slots:
            return layers
        return 0 if AMONG_WORDS & set(self.slots) else min(self.layers)

    def trains(self, name: str) -> bool:
        """Return whether a parameter of the backbone is trained and saved with the method; it stays the backbone's.

        Args:
            name: such as ``layernorm_embedding.weight``, ``layers.3.self_attn.q_proj.bias``, ``layers.3.fc1.weight``
                or ``layers.3.final_layer_norm.bias``.
        """
        return False

    @abstractmethod
    def describe(self) -> str:
        """Say where the method enters, for the log."""

    def set_initial_values(self, cfg: Any, words: WordEmbeddings) -> None:
        """Set starting values that need the loaded backbone or other files; InputError if they cannot be had."""

    def without_effect(self, cfg: Any) -> dict[str, str]:
        """Return options that change nothing beside the others -> why, and what to do: a run may not set them."""
        return {}

    def prompt_parameters(self) -> list[nn.Parameter]:
        """Return parameters that are prompt rows themselves, for --no-decay-prompts."""
        return []

    def word_parameters(self) -> list[nn.Parameter]:
        """Return parameters of rows that are added to word embeddings, for --words-lr."""
        return []

    def compare(self, one: Tensor, other: Tensor) -> None:
        """Compare the B x C logits of both training passes of a batch, for ``extra_loss``; see ``second_pass``."""

    def extra_loss(self) -> Tensor:
        """Return what the training pass before adds to the loss, a scalar that counts like the mean loss of an example.

        Asked for once after each training pass of a method with ``adds_loss``. By default the pass leaves it in
        ``extra``.
        """
        extra, self.extra = self.extra, None
        assert extra is not None
        return extra

    def fold(self) -> None:
        """Bring the tensors that outlive training up to date with those that only training needs."""

    def mark_folded(self) -> None:
        """Note that a checkpoint without the training-only tensors was loaded: it can be used, not trained on."""
        self.folded = True

    def check_whole(self) -> None:
        """Raise InputError if what only training needs was left out of the checkpoint that was loaded."""
        if self.folded:
            raise InputError(f"this checkpoint is folded, without what made it: {self.folded_remedy}")

    def merge(self, stack: nn.Module) -> None:
        """Write into the weights of ``stack`` what can stand there, set ``merged`` and inject it no longer.

        For prediction alone: nobody trains or saves a model after it.
        """
