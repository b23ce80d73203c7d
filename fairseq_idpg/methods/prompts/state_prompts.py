"""What LPT and ID-SPAM have in common: prompts that are made from all states of a sequence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from ...backbone.injection import States
from ...errors import InputError
from ...representations.kinds import LAST_STATES
from ..base import Geometry
from ..options import Filled, TrueFalse, option
from .base import GeneratorConfig, PromptAt, PromptMethod, words_of

# how a generator finds what it reads in the pass, from the states below its place
IN_PASS: dict[str, Callable[[Any], States]] = {
    "states": lambda states: states,
    "words": words_of,
    "embeddings": lambda states: states.origin.embedded(),
}
LAST = "last"
Input: Any = ChoiceEnum([*IN_PASS, LAST])


@dataclass
class StatePromptConfig(GeneratorConfig):
    generator_input: Filled[Input] = option(
        "states",
        "what the generator reads: the 'states' below the layer, which at the input are the words; or at every layer "
        "the text's 'words' (embeddings without positions), its 'embeddings' (the states that enter layer 0) or its "
        "'last' states (the frozen backbone's on the raw input, the first of which is M(x))",
    )
    generator_bias: Filled[TrueFalse] = option("true", "biases in the two layers of a generator that reads states")


class StateGenerator(nn.Module):
    """W2 ReLU(W1 h + b1) as rows x d: states -> B x rows x d, from one vector h that ``read`` makes of the states.

    The output bias may belong to a layer, so it is not here. ``down``: d -> m; ``up``: m -> ``bias_rows`` d; they start
    as PyTorch's Linears.
    """

    def __init__(self, cfg: StatePromptConfig, width: int, bias_rows: int):
        super().__init__()
        self.width = width
        # rows of the output bias; each is added to rows / bias_rows neighbouring rows
        self.bias_rows = bias_rows
        self.down = nn.Linear(width, cfg.generator_hidden_size, bias=str(cfg.generator_bias) == "true")
        self.up = nn.Linear(cfg.generator_hidden_size, bias_rows * width, bias=False)

    def read(self, states: States) -> Tensor:
        """Return h: B x d."""
        raise NotImplementedError

    def forward(self, states: States) -> Tensor:
        return self.up(F.relu(self.down(self.read(states)))).unflatten(1, (-1, self.width))


class StatePrompts(PromptMethod):
    """P_l = drop(f(G(H_l) + b_l)), for each place l; H_l: the states that --generator-input names, with their pads.

    ``bias``: 1 or places x bias rows x d; it starts as that of a Linear with m inputs. f (``activation``): the
    identity, unless a subclass replaces it. Sharing over places as in IDPG: S one G and one b; M one G and b per place;
    L everything per place.
    """

    config = StatePromptConfig
    generator: type[StateGenerator]  # makes G of (options, d, rows)
    shared = shows_no_example = None

    def __init__(self, cfg: StatePromptConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        reads = str(cfg.generator_input)
        if self.in_input and reads == "embeddings":
            raise InputError("--generator-input embeddings come after a prompt of the input: give words or last")
        if reads == LAST:
            self.representation = LAST_STATES
        else:
            self.reads_words, self.read = True, IN_PASS[reads]
        sharing, places = str(cfg.generator_sharing), len(self.places)
        count = places if sharing == "L" else 1
        generators = [self.generator(cfg, geometry.width, self.rows) for _ in range(count)]
        self.generators: Any = nn.ModuleList(generators)
        self.bias: nn.Parameter | None = None
        if str(cfg.generator_bias) == "true":
            count = 1 if sharing == "S" else places
            self.bias = nn.Parameter(torch.empty(count, generators[0].bias_rows, geometry.width))
            bound = cfg.generator_hidden_size**-0.5
            nn.init.uniform_(self.bias, -bound, bound)
        self.activation: nn.Module = nn.Identity()
        self.dropout = nn.Dropout(cfg.generator_dropout)

    @property
    def initial_rows(self) -> nn.Parameter | None:
        return self.bias if self.bias is not None and self.bias.size(1) == self.rows else None

    def prompt_parameters(self) -> list[nn.Parameter]:
        return [] if self.bias is None else [self.bias]

    def begin_pass(self, representation: Any) -> PromptAt:
        """``representation``: the last ``States``, or None."""
        biases = None if self.bias is None else self.bias.unbind()

        def prompt_at(place: int, states: Any) -> Tensor:
            number = self.places.index(place)
            # the last states are the same for every place; others come from the states below this one
            read = self.read(states) if representation is None else representation
            prompt = self.generators[number % len(self.generators)](read)
            if biases is not None:
                bias = biases[number % len(biases)]
                prompt = prompt + bias.repeat_interleave(self.rows // len(bias), 0)
            return self.dropout(self.activation(prompt))

        return prompt_at

    def without_effect(self, cfg: StatePromptConfig) -> dict[str, str]:
        reasons = super().without_effect(cfg)
        sharing, reads = str(cfg.generator_sharing), str(cfg.generator_input)
        if self.bias is None and sharing == "M" and len(self.places) > 1:
            reasons["generator_sharing"] = "without biases M is S: leave it out or give --generator-bias true"
        if self.places == (0,) and self.in_input and reads != LAST:
            reasons["generator_input"] = "the input's prompt is made from the words: leave it out"
        elif self.places == (0,) and reads == "embeddings":
            reasons["generator_input"] = "these are the states below layer 0: give states"
        return reasons
