"""What every prompt method has in common: which layers get a prompt, how long it is, how it enters."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Callable, Optional, Tuple

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from torch import Tensor, nn

from ..errors import InputError
from ..options import option
from ..registry import Geometry

# (place, B x d sentence state or None) -> B x t x d or 1 x t x d prompt rows
PromptAt = Callable[[int, Optional[Tensor]], Tensor]

# What RobertaModel's own initialisation leaves in every embedding table of the released code.
TABLE_STD = 0.02


@dataclass
class PromptConfig(FairseqDataclass):
    """Options of every prompt method."""

    prompt_length: Optional[int] = option(5, "prompt length t: rows inserted into each input")
    prompt_layers: Optional[str] = option(
        "first",
        "layers that read a prompt: 'first' (the input only), 'all', or a list such as 0,4,8 that includes 0; "
        "layer i > 0 reads its prompt from the hidden states after layer i - 1",
    )
    prompt_insertion: Optional[ChoiceEnum(["add", "replace"])] = option(
        "add",
        "how a prompt enters above the input: 'add' it to the hidden states at the prompt's places (paper) or "
        "'replace' them",
    )


def parse_places(text: str, layers: int) -> Tuple[int, ...]:
    """``first`` | ``all`` | ``0,4,8`` -> the places of a prompt in rising order.

    Place 0 is the input; place i > 0 is the hidden states between layer i - 1 and layer i. There is no place
    after the last layer: no layer would read it.
    """
    if text == "first":
        return (0,)
    if text == "all":
        return tuple(range(layers))
    try:
        places = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise InputError(f"--prompt-layers {text}: give first, all or a list of layer numbers such as 0,4,8") from None
    if places[0] != 0 or places[-1] >= layers:
        raise InputError(
            f"--prompt-layers {text}: layers count from 0 to {layers - 1}, and 0 (the input, which makes the rows) "
            "must be among them"
        )
    return places


class PromptMethod(nn.Module, ABC):
    """Base of the prompt methods.

    Attributes:
        prompt_length: t, the rows that the task reserves in every example.
        places: where a prompt enters, see ``parse_places``.
        insertion: ``add`` or ``replace``.
        reads_representation: whether ``start`` wants M(x).
    """

    reads_representation = False
    representation_dropout = False

    def __init__(self, cfg: PromptConfig, geometry: Geometry):
        super().__init__()
        if cfg.prompt_length < 1:
            raise InputError(f"--prompt-length {cfg.prompt_length} is no length: give 1 or more")
        self.prompt_length = cfg.prompt_length
        self.places = parse_places(str(cfg.prompt_layers), geometry.layers)
        self.insertion = str(cfg.prompt_insertion)

    @abstractmethod
    def start(self, representation: Optional[Tensor]) -> PromptAt:
        """Begins one forward pass on M(x) (B x d, or None) and returns what gives each place its rows."""
