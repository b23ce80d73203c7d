"""What every method, whatever it injects, tells the model."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

from fairseq.dataclass import FairseqDataclass
from torch import Tensor, nn

from ..backbone.injection import Injection


@dataclass(frozen=True)
class Geometry:
    """What a method must know of its backbone: L layers, width d and the feed-forward's inner width."""

    layers: int
    width: int
    inner: int

    @classmethod
    def of(cls, cfg: Any) -> "Geometry":
        """Of the backbone that the model's options describe."""
        return cls(cfg.encoder_layers, cfg.encoder_embed_dim, cfg.encoder_ffn_embed_dim)


@dataclass(frozen=True)
class WordEmbeddings:
    """The words that a run knows, for methods whose rows start from some of them.

    Attributes:
        embeddings: V x d, the backbone's word embeddings; the last symbol is <mask>.
        specials: ids below this are no words.
        encode: text -> ids.
    """

    embeddings: Tensor
    specials: int
    encode: Callable[[str], List[int]]


class Method(nn.Module, ABC):
    """Base of all methods with parameters of their own.

    Attributes:
        config: dataclass of the options that the method understands, each declared with ``option``.
        slots: the fields of an ``Injection`` that ``injection`` fills; no two methods of a combination share one.
        prompt_length: rows that the task reserves in every example; 0 when the input is not lengthened.
        representation: the kind of M(x) that ``injection`` wants, None if it wants none.
        representation_dropout: whether the backbone's dropout stays on while M(x) is computed in training.
        training_only: names (their beginnings) of tensors that are not needed once the method is trained.
        folded: whether a checkpoint without these was loaded.
    """

    config: Type[FairseqDataclass] = FairseqDataclass
    slots: Tuple[str, ...] = ()
    prompt_length = 0
    representation: Optional[str] = None
    representation_dropout = False
    training_only: Tuple[str, ...] = ()
    folded = False

    @abstractmethod
    def injection(self, representation: Optional[Tensor]) -> Injection:
        """The values of one forward pass, from M(x), B x d, if there is a ``representation``."""

    def trains(self, name: str) -> bool:
        """Whether a parameter of the backbone is trained and saved with the method; it stays the backbone's.

        Asked once for each of them when the model is built.

        Args:
            name: such as ``layernorm_embedding.weight``, ``layers.3.self_attn.q_proj.bias``, ``layers.3.fc1.weight``
                or ``layers.3.final_layer_norm.bias``.
        """
        return False

    def fold(self) -> None:
        """Brings the tensors that outlive training up to date with those that only training needs."""

    def mark_folded(self) -> None:
        """Told when a checkpoint without the training-only tensors is loaded: it can be used, not trained on."""
        self.folded = True

    def without_effect(self, cfg: Any) -> Dict[str, str]:
        """Options that change nothing beside the others as they are -> why, and what to do: a run may not set them."""
        return {}

    def prompt_parameters(self) -> List[nn.Parameter]:
        """Parameters that are prompt rows themselves, for --no-decay-prompts."""
        return []

    def set_initial_values(self, cfg: Any, words: WordEmbeddings) -> None:
        """Sets starting values that need the loaded backbone or other files; nothing by default."""

    @abstractmethod
    def describe(self) -> str:
        """Where the method enters, for the log."""
