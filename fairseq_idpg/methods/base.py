"""What a method is: the interface between the model and what is trained beside its frozen backbone.

A new method is one file in ``prompts/`` or ``adapters/``, where it is found by itself. It holds
- a dataclass of its options, each declared with ``option``. fairseq reads the types of its fields, so the file must not
  import annotations from ``__future__``;
- a ``Method`` with this dataclass as its ``config``. ``PromptMethod`` and ``AdapterMethod`` know layers and places: a
  prompt only says what its rows are (``begin_pass``), an adapter what its matrices are (``projections``);
- a ``register_preset`` line for each row of its paper's tables.
The command line, ``--method A+B``, checkpoints, the log, ``count`` and ``options_table`` take all they need from these.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import FairseqDataclass
from torch import Tensor, nn

from ..backbone.injection import NOTHING, Injection
from ..errors import InputError

AMONG_WORDS = {"words", "input"}  # slots below the first layer


@dataclass(frozen=True)
class Geometry:
    """Sizes of a backbone: L layers, width d, the feed-forward's inner width and H heads."""

    layers: int
    width: int
    inner: int
    heads: int = 1

    @classmethod
    def of(cls, cfg: Any) -> "Geometry":
        return cls(cfg.encoder_layers, cfg.encoder_embed_dim, cfg.encoder_ffn_embed_dim, cfg.encoder_attention_heads)


@dataclass(frozen=True)
class WordEmbeddings:
    """The words of a run, for methods whose rows start from some of them."""

    embeddings: Tensor  # V x d, the backbone's; the last symbol is <mask>
    specials: int  # ids below this are no words
    encode: Callable[[str], list[int]]  # text -> ids
    fingerprint: Tensor | None = None  # of the backbone, as checkpoints keep it; None: unknown
    symbols: Sequence[str] = ()  # V, the dictionary's; empty: unknown


class Method(nn.Module, ABC):
    """A module built from (filled options, ``Geometry``); its parameters are trained and saved as ``method.*``.

    It enters the backbone through ``injection``, through ``trains``, or both. Every function but ``describe`` has a
    default: do what the ``members`` do; a single method does nothing. Raise InputError on construction for options that
    make no module, such as a size of 0.
    """

    config: type[FairseqDataclass] = FairseqDataclass  # its options
    slots: tuple[str, ...] = ()  # the fields of an Injection that it fills; methods of a combination share none
    hides_pass = False  # the head sees nothing that others inject: it is joined with no method that has slots
    layers: tuple[int, ...] = (0,)  # where it fills slots that lie within the layers; see ``first_layer``
    prompt_length = 0  # rows that the task reserves in every example; 0: the input is not lengthened
    # kind of M(x) that ``injection`` reads, of representations.kinds.READERS (``backbone``: the last <s> state) or
    # ``glove``; None: it reads none
    representation: str | None = None
    representation_dropout = False  # the backbone's dropout stays on while M(x) is computed in training
    own_encoder = False  # M(x) comes from ``encoder``, a copy of the backbone's that is trained; the model adds it
    encoder: Any
    # every training pass is run twice, with other draws but one M(x), for ``compare``; the first gives the loss
    second_pass = False
    adds_loss: str | None = None  # option, as it is typed, because of which ``extra_loss`` is added; None: nothing is
    redrawn = False  # Python draws something for each training pass: a recorded pass would repeat its draw
    extra: Tensor | None = None  # what a training pass adds to the loss, until ``extra_loss`` returns it
    training_only: tuple[str, ...] = ()  # beginnings of the names of tensors that only training needs
    folded = False  # the loaded checkpoint lacks these tensors
    folded_remedy = "train on from a checkpoint that was written without --no-save-optimizer-state"
    merged = False  # whether the method is part of the backbone's weights, see ``merge``

    @property
    def members(self) -> Iterable["Method"]:
        """The methods that this one joins; empty for a single method."""
        return ()

    @classmethod
    def derive_options(cls, cfg: Any) -> None:
        """Set options that follow from others, before the rest of ``cfg`` is filled; InputError if they contradict."""

    def injection(self, representation: Tensor | None) -> Injection:
        """Return the values of one forward pass, a field for each of ``slots``.

        M(x) is B x d (``glove``: B x the vectors' width; ``last-states``: ``States``), None without a kind.
        Raise InputError in training if the loaded checkpoint lacks what only training needs.
        """
        return NOTHING

    def first_layer(self, layers: int) -> int:
        """Return the first of the backbone's ``layers`` in which, or in front of which, ``injection`` changes anything.

        Counted from 0; ``layers`` if it changes none. Layers below compute the same as for the text without a method.
        """
        if not self.slots:
            return layers
        return 0 if AMONG_WORDS & set(self.slots) else min(self.layers)

    def trains(self, name: str) -> bool:
        """Return whether a parameter of the backbone is trained and saved with the method; it stays the backbone's.

        Names are such as ``layernorm_embedding.weight`` or ``layers.3.self_attn.q_proj.bias``.
        """
        return any(member.trains(name) for member in self.members)

    @abstractmethod
    def describe(self) -> str:
        """Say where the method enters, for the log."""

    def set_initial_values(self, cfg: Any, words: WordEmbeddings) -> None:
        """Set starting values that need the loaded backbone or other files; InputError if they cannot be had."""
        for member in self.members:
            member.set_initial_values(cfg, words)

    def without_effect(self, cfg: Any) -> dict[str, str]:
        """Return option -> why it changes nothing beside the others, and a remedy; a run may not set these options."""
        return {name: reason for member in self.members for name, reason in member.without_effect(cfg).items()}

    def prompt_parameters(self) -> list[nn.Parameter]:
        """Return parameters that are prompt rows themselves, for --no-decay-prompts."""
        return [parameter for member in self.members for parameter in member.prompt_parameters()]

    def word_parameters(self) -> list[nn.Parameter]:
        """Return parameters of rows that are added to word embeddings, for --words-lr."""
        return [parameter for member in self.members for parameter in member.word_parameters()]

    def compare(self, one: Tensor, other: Tensor) -> None:
        """Compare the B x C logits of both training passes of a batch, for ``extra_loss``; see ``second_pass``."""
        for member in self.members:
            if member.second_pass:
                member.compare(one, other)

    def extra_loss(self) -> Tensor:
        """Return what the last training pass adds to the loss, a scalar that counts like the mean loss of an example.

        Called once after each training pass of a method with ``adds_loss``; by default it is what ``extra`` holds.
        """
        extra, self.extra = self.extra, None
        assert extra is not None
        return extra

    def fold(self) -> None:
        """Bring the tensors that outlive training up to date with those that only training needs."""
        for member in self.members:
            member.fold()

    def train(self, mode: bool = True) -> "Method":
        if not mode:
            self.fold()
        return super().train(mode)

    def check_whole(self) -> None:
        """Raise InputError if the loaded checkpoint lacks what only training needs."""
        if self.folded:
            raise InputError(f"this checkpoint is folded, without what made it: {self.folded_remedy}")

    def merge(self, stack: nn.Module) -> None:
        """Merge what can be merged into the weights of ``stack``, set ``merged``, and stop injecting it.

        For prediction alone: the model is neither trained nor saved afterwards.
        """
        for member in self.members:
            member.merge(stack)
        self.merged = any(member.merged for member in self.members)
