"""What every prompt method has in common: which layers get a prompt, how long it is, how it enters.

Differs from the papers of all of them in: the backbone is a frozen RoBERTa, and a head is trained on it. Rows of the
input stand after ``<s>`` (or at another --prompt-position), not in front of it, where the classification head would
read the first of them. Their positions are counted like those of words.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from torch import Tensor, nn

from ...backbone.cpu import QuickDropout
from ...backbone.injection import Injection, Prefix, States
from ...errors import InputError
from ..base import Geometry, Method, WordEmbeddings
from ..options import Filled, dropout_option, option, options_of, parse_layers
from .initial import INITS, load_saved, set_initial_rows

# (place, states below it; at the input the word embeddings or None) -> prompt rows, B x rows x d or 1 x rows x d
PromptAt = Callable[[int, States | None], Tensor]

TABLE_STD = 0.02  # of every embedding table in the released code, since RobertaModel draws them again
PREFIX = ("key-value", "key-value-input")
LATE = "late"
IN_ALL_LAYERS = "leave it out or give --prompt-layers all"

Insertion: Any = ChoiceEnum(["add", "replace", *PREFIX, LATE])
Initial: Any = ChoiceEnum(list(INITS))
Sharing: Any = ChoiceEnum(["S", "M", "L"])


def words_of(states: States) -> States:
    """Return the text's word embeddings, from the states below a prompt."""
    # below the prompt of the input, the states are these embeddings themselves
    return states if states.origin is None else states.origin.words()


def mean_word(states: States) -> Tensor:
    """Return the mean of the text's word embeddings, B x d."""
    words = words_of(states)
    return (words.weights @ words.x.transpose(0, 1))[:, 0]


def largest(logits: Tensor, count: int) -> Tensor:
    """Return the ``count`` largest of softmax(logits) and 0 for the others, B x n; they are not made to sum to 1."""
    p = logits.softmax(1)
    found = p.topk(count, dim=1)
    return torch.zeros_like(p).scatter(1, found.indices, found.values)


@dataclass
class PromptConfig(FairseqDataclass):
    prompt_length: Filled[int] = option(5, "prompt length t: rows inserted into each input", least=1)
    prompt_layers: Filled[str] = option(
        "first",
        "layers that read a prompt, counted from 0: 'first' (the input only), 'all', 'middle' (layer L/2 + 1), or a "
        "list such as 0,4,8. Layer 0 reads its prompt from the input, and must be there unless prompts are keys and "
        "values or late; layer k > 0 reads it from the states behind k layers: LPT's and ID-SPAM's 'after layer k'",
    )
    prompt_insertion: Filled[Insertion] = option(
        "add",
        "how a prompt enters: as rows of the input, above it 'add'ed to the hidden states at the prompt's places "
        "(IDPG's released code) or 'replace'ing them; as t keys and t values of each layer, 'key-value' after "
        "projection (prefix tuning) or 'key-value-input' before it (the released code's insert mode 2); or 'late', as "
        "t rows that join the hidden states before each layer of --prompt-layers, without position or LayerNorm (LPT)",
    )
    prompt_init: Filled[Initial] = option(
        "normal",
        "start of prompt rows (of a generator: of its output bias): 'normal', N(0, 0.02^2), but 0 for a dnn with "
        "--prompt-layers first, and within 1/sqrt(m), as a Linear's bias, for generators that read states; "
        "'standard-normal', N(0, 1); 'uniform', (-0.5, 0.5), with low-rank that of its factors; at the input or late "
        "also 'vocabulary' (frequent words), 'class-labels' or 'text' (of --prompt-init-text); 'saved'",
        starting=True,
    )
    prompt_init_text: Filled[str] = option(
        "",
        "text to start from; for class-labels one for each class: 'bad|good'",
        only_with=("prompt_init", ("text", "class-labels")),
        starting=True,
    )
    prompt_init_from: Filled[str] = option(
        "",
        "checkpoint of another task, whose whole prompt method is taken over; both methods may be joined with others",
        only_with=("prompt_init", ("saved",)),
        starting=True,
    )
    prefix_dropout: Filled[float] = dropout_option(
        0.0,
        "dropout on the rows that enter as keys and values, drawn for each example",
        only_with=("prompt_insertion", PREFIX),
    )


@dataclass
class GeneratorConfig(PromptConfig):
    """Options of every generator: two layers, d to m to the rows."""

    generator_hidden_size: Filled[int] = option(16, "hidden size m of the generator", least=1)
    generator_sharing: Filled[Sharing] = option(
        "M", "shared by the layers: S weights and output bias, M weights only, L nothing"
    )
    generator_dropout: Filled[float] = dropout_option(
        0.1,
        "dropout of a generator: IDPG's on M(x) and its hidden layer, LoPA's on M(x), LPT's and ID-SPAM's on the rows",
    )


def parse_places(text: str, layers: int, needs_input: bool = True) -> tuple[int, ...]:
    """Turn ``first``, ``all``, ``middle`` or ``0,4,8`` into the places of a prompt in rising order.

    Place 0 is the input, or the states that enter layer 0; place i > 0 are the states between layers i - 1 and i.
    ``needs_input``: raise InputError without place 0, whose prompt makes the rows that the others change.
    """
    words = {"first": "0", "middle": str(min(layers // 2 + 1, layers - 1))}
    places = parse_layers("--prompt-layers", words.get(text, text), layers, "first, all, middle")
    if places[0] != 0 and needs_input:
        raise InputError(f"--prompt-layers {text}: add 0, the input, or give --prompt-insertion late")
    return places


class PromptMethod(Method):
    """Rows that enter at ``places``; a subclass says what they are."""

    reads_words = False  # the input's rows are made from the text's word embeddings
    table: nn.Parameter  # places (or 1) x rows x d
    # Both are for analyses; a method whose rows depend on the input replaces them.
    shared: str | None = "the same prompt for every input"  # what ``initial_rows`` are; None: inputs share no rows
    # follows the method's name: why the rows of one example cannot be shown; None: they can
    shows_no_example: str | None = "has the same prompt for every input"

    def __init__(self, cfg: PromptConfig, geometry: Geometry):
        super().__init__()
        self.insertion = str(cfg.prompt_insertion)
        prefix = self.insertion in PREFIX
        self.in_input = not prefix and self.insertion != LATE
        self.prompt_length = cfg.prompt_length if self.in_input else 0
        # rows at each place: t, or t keys and then t values
        self.rows = 2 * cfg.prompt_length if prefix else cfg.prompt_length
        self.prefix_dropout = QuickDropout(cfg.prefix_dropout)
        self.layers = self.places = parse_places(str(cfg.prompt_layers), geometry.layers, self.in_input)
        if self.in_input:
            self.slots: tuple[str, ...] = ("input",) if self.places == (0,) else ("input", "hidden")
        else:
            self.slots = ("key_value",) if prefix else ("late",)

    @abstractmethod
    def begin_pass(self, representation: Tensor | None) -> PromptAt:
        """Begin one forward pass, with M(x) as for ``injection``, and return what makes the rows of each place.

        Tables of N places are unbound here: indexing each would make N gradients of the whole size.
        """

    def injection(self, representation: Tensor | None) -> Injection:
        """Make rows of the input now, unless they are made of its words, and those of a layer when it is reached."""
        prompt_at = self.begin_pass(representation)

        def before(layer: int, states: States) -> Tensor | None:
            return prompt_at(layer, states) if layer in self.places else None

        def prefix(layer: int, states: States) -> Prefix | None:
            rows = before(layer, states)
            if rows is None:
                return None
            # rows that the batch shares are expanded first, so that dropout draws for each example
            if self.training and self.prefix_dropout.p:
                rows = self.prefix_dropout(rows.expand(states.x.size(1), -1, -1))
            keys, values = rows.chunk(2, dim=1)
            return Prefix(keys, values, before_projection=self.insertion == "key-value-input")

        if self.insertion in PREFIX:
            return Injection(key_value=prefix)
        if self.insertion == LATE:
            return Injection(late=before)
        injection = Injection(input=partial(prompt_at, 0) if self.reads_words else prompt_at(0, None))
        if self.places == (0,):
            return injection

        # layer l + 1 reads the states after layer l; layer 0 reads the rows of the input
        def behind(layer: int, states: States) -> Tensor | None:
            return None if layer < 0 else before(layer + 1, states)

        return replace(injection, hidden=behind, insertion=self.insertion)

    def without_effect(self, cfg: Any) -> dict[str, str]:
        reasons = {}
        # a method that is taken over whole starts from nothing else
        if str(cfg.prompt_init) == "saved":
            starts = [name for name, declared in options_of(self.config).items() if declared.metadata["starting"]]
            saved = "--prompt-init saved takes the whole method over: leave it out"
            reasons = {name: saved for name in starts if not name.startswith("prompt_init")}
        if self.places == (0,) and self.insertion == "replace":
            reasons["prompt_insertion"] = f"a prompt of the input alone replaces no hidden states: {IN_ALL_LAYERS}"
        if issubclass(self.config, GeneratorConfig) and len(self.places) == 1:
            reasons["generator_sharing"] = f"there is one prompt, which shares with no other: {IN_ALL_LAYERS}"
        return reasons

    @property
    def initial_rows(self) -> nn.Parameter | None:
        """Return what --prompt-init sets, places (or 1) x rows x d; None where no parameter is such rows."""
        return self.table

    def prompt_parameters(self) -> list[nn.Parameter]:
        return [] if self.initial_rows is None else [self.initial_rows]

    @torch.no_grad()
    def set_initial_values(self, cfg: Any, words: WordEmbeddings) -> None:
        if str(cfg.prompt_init) == "saved":
            load_saved(self, cfg.prompt_init_from, cfg, words)
        else:
            self.start_rows(cfg, words)

    def start_rows(self, cfg: Any, words: WordEmbeddings) -> None:
        """Give the rows their first values, as --prompt-init says, unless they are another task's."""
        set_initial_rows(self, cfg, words, self.initial_rows)

    def describe(self) -> str:
        return f"prompt: {self.rows} rows ({self.insertion}) at layers {','.join(map(str, self.places))}"
