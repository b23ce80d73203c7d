"""Instance-dependent prompts (IDPG): a prompt generated from each input.

Paper: "IDPG: An Instance-Dependent Prompt Generation Method" (Wu et al., NAACL 2022),
https://arxiv.org/abs/2204.04497, Section 3, ablations of Section 4.5.3 and Appendix A.5.1.

Differs from the paper in:
- above the input a layer's prompt is added to the hidden states at the prompt's places, as released. Section 3.2.2 says
  prepended, which --prompt-insertion replace and key-value are;
- b_i is that of W2, t d wide, as A.1.2 counts it; Section 3.2.2 has it in R^m;
- the mean of (5) is over the words that have a vector, as released, not over all k;
- GELU, dropout of 0.1 on M(x) and the hidden layer, and starting values are the released code's. The paper has only one
  dropout, 0.1 (Table 4).
Differs from the released code in: M(x) is computed without dropout unless --representation-dropout; S-IDPG-PHM shares
one A between W1 and W2, as the paper counts it, unless --phm-shared-a false; the residual's LayerNorms are those of
Appendix A.5.1 unless --generator-residual-norm released.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from ...errors import InputError
from ...representations.kinds import GLOVE, PREVIOUS_LAYER, REPRESENTATIONS
from ..base import Geometry
from ..options import Filled, TrueFalse, option
from ..phm import check_divisible, kronecker_sum
from ..registry import register_preset
from .base import TABLE_STD, GeneratorConfig, PromptAt, PromptMethod

# In the released code bare parameters keep the initialisation that it writes, and RobertaModel draws Linears again.
PHM_STD, DENSE_STD = 0.05, 0.02

GeneratorKind: Any = ChoiceEnum(["phm", "dnn"])
Kind: Any = ChoiceEnum([*REPRESENTATIONS, GLOVE])
Formula: Any = ChoiceEnum(["paper", "released"])


@dataclass
class IDPGConfig(GeneratorConfig):
    generator: Filled[GeneratorKind] = option("phm", "how W1 and W2 are made: 'phm' or dense 'dnn'")
    phm_n: Filled[int] = option(16, "PHM factor n; divides d, m and t x d", only_with=("generator", ("phm",)), least=1)
    phm_shared_a: Filled[TrueFalse] = option(
        "false",
        "one A for W1 and W2 (the paper's count of S-IDPG-PHM) or one each (the released code)",
        only_with=("generator", ("phm",)),
    )
    representation: Filled[Kind] = option(
        "backbone",
        "what the prompt is generated from: 'backbone', M(x) for every layer, the frozen backbone's last <s> state on "
        "the raw input; 'previous-layer', M(x) for the input, and this pass's <s> state below each other layer; or the "
        "mean of the backbone's last states ('mean-pooled'), of the word embeddings ('token-mean') or of word vectors "
        "in the data folder ('glove': python -m preprocess glove)",
    )
    representation_width: Filled[int] = option(
        0, "width of the word vectors; 0: what the data folder has", only_with=("representation", (GLOVE,))
    )
    representation_dropout: Filled[bool] = option(
        False,
        "leave the backbone's dropout on while M(x) is computed in training, as the released code does",
        only_with=("representation", ("backbone", PREVIOUS_LAYER, "mean-pooled")),
        changeable=True,
    )
    generator_residual: Filled[bool] = option(False, "add M(x) to each row of the input prompt (Table 7)")
    generator_layer_norm: Filled[bool] = option(False, "LayerNorm on the rows of the input prompt (Table 7)")
    generator_residual_norm: Filled[Formula] = option(
        "paper",
        "LayerNorms before the sum of --generator-residual: 'paper' one on M(x) and one on the rows with "
        "--generator-layer-norm, else none; 'released' one on the rows, always, as the released code has it",
        only_with=("generator_residual", ("True",)),
        formerly="released",
    )


class Generator(nn.Module, ABC):
    """G(c) = W2 drop(GELU(W1 c + b1)), without the output bias, which may belong to a layer.

    ``c``: B x d -> B x (t d), or of another ``width`` to ``out``. b1 (``hidden_bias``) has m entries.
    """

    def __init__(self, cfg: IDPGConfig):
        super().__init__()
        self.hidden_bias = nn.Parameter(torch.zeros(cfg.generator_hidden_size))
        self.dropout = nn.Dropout(cfg.generator_dropout)

    @abstractmethod
    def matrices(self) -> tuple[Tensor, Tensor]:
        """Return W1 (d x m) and W2 (m x t d), to be multiplied from the right: y = x W."""

    def ready(self) -> Callable[[Tensor], Tensor]:
        """Return G for all layers of one pass, with W1 and W2 built once."""
        down, up = self.matrices()

        # layers with one c share their hidden layer, but not its dropout
        @lru_cache(maxsize=1)
        def hidden(c: Tensor) -> Tensor:
            return F.gelu(c @ down + self.hidden_bias)

        return lambda c: self.dropout(hidden(c)) @ up


class DenseGenerator(Generator):
    """DNN: W1 and W2 dense. Parameters: d m + m + m t d."""

    def __init__(self, cfg: IDPGConfig, width: int, out: int):
        super().__init__(cfg)
        self.down = nn.Parameter(torch.empty(width, cfg.generator_hidden_size))
        self.up = nn.Parameter(torch.empty(cfg.generator_hidden_size, out))
        for weight in (self.down, self.up):
            nn.init.normal_(weight, std=DENSE_STD)

    def matrices(self) -> tuple[Tensor, Tensor]:
        return self.down, self.up


class PHMGenerator(Generator):
    """PHM: W1 = sum_i A_i (x) B_i and W2 = sum_i A'_i (x) B'_i.

    With --phm-shared-a A' = A, as the paper counts S-IDPG. Raise InputError if n does not divide a side.
    Parameters: n^3 (shared) or 2 n^3, + d m / n + m + m t d / n.
    """

    def __init__(self, cfg: IDPGConfig, width: int, out: int):
        super().__init__(cfg)
        n, hidden = cfg.phm_n, cfg.generator_hidden_size
        for what, value in (("the width d", width), ("--generator-hidden-size m", hidden), ("t x d", out)):
            check_divisible(what, value, n)
        self.shared_a = str(cfg.phm_shared_a) == "true"
        self.down_a = nn.Parameter(torch.empty(n, n, n))
        self.down_b = nn.Parameter(torch.empty(n, width // n, hidden // n))
        if not self.shared_a:
            self.up_a = nn.Parameter(torch.empty(n, n, n))
        self.up_b = nn.Parameter(torch.empty(n, hidden // n, out // n))
        for parameter in self.parameters():  # hidden_bias too
            nn.init.normal_(parameter, std=PHM_STD)

    def matrices(self) -> tuple[Tensor, Tensor]:
        up_a = self.down_a if self.shared_a else self.up_a
        return kronecker_sum(self.down_a, self.down_b), kronecker_sum(up_a, self.up_b)


class IDPG(PromptMethod):
    """P_l = reshape(W2 drop(GELU(W1 c_l + b1)) + b_l) to t x d, for each place l.

    c_0 = drop(M(x)); above the input c_l = c_0 or, with ``previous-layer``, the ``<s>`` state below layer l, undropped.
    Sharing over places: S one (W1, W2, b1) and one b; M one (W1, W2, b1) and b per place; L everything per place.

    Table 7 (Appendix A.5.1), at the input prompt only:
        residual          P_0 <- c_0 + P_0
        layer norm        P_0 <- LN_g(P_0)
        both              P_0 <- LN_g(LN_c(c_0) + LN_r(P_0))
    Each LayerNorm has 2 d parameters. The released code has c_0 + LN_r(P_0) and LN_g(c_0 + LN_r(P_0)).
    ``bias``: 1 or places x t x d, from N(0, 0.02^2); zero for the single-layer DNN, whose bias is a Linear's in
    the released code.
    """

    config = IDPGConfig
    shared, shows_no_example = "output bias of the generator", None

    def __init__(self, cfg: IDPGConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        kind, sharing = str(cfg.representation), str(cfg.generator_sharing)
        width, places = geometry.width, len(self.places)
        self.from_previous_layer = kind == PREVIOUS_LAYER
        if 0 in self.places or not self.from_previous_layer:  # else nothing reads M(x)
            self.representation = kind
            self.representation_dropout = bool(cfg.representation_dropout)
        self.dropout = nn.Dropout(cfg.generator_dropout)
        input_width = width
        if self.representation == GLOVE:
            input_width, added = cfg.representation_width, cfg.generator_residual
            wanted = f" of {width} numbers (without --generator-residual: of any)" if added else ""
            if not input_width or added and input_width != width:
                raise InputError(f"--representation glove needs word vectors{wanted}: run python -m preprocess glove")
        generator: Any = DenseGenerator if str(cfg.generator) == "dnn" else PHMGenerator
        count = places if sharing == "L" else 1
        self.generators: Any = nn.ModuleList(generator(cfg, input_width, self.rows * width) for _ in range(count))
        self.bias = nn.Parameter(torch.zeros(1 if sharing == "S" else places, self.rows, width))
        if not (str(cfg.generator) == "dnn" and self.places == (0,)):
            nn.init.normal_(self.bias, std=TABLE_STD)
        # LayerNorms that a variant of Table 7 lacks are identities
        self.residual, normed = bool(cfg.generator_residual), bool(cfg.generator_layer_norm)
        released = str(cfg.generator_residual_norm) == "released"
        self.residual_layer_norm, self.representation_layer_norm, self.prompt_layer_norm = (
            nn.LayerNorm(width) if present else nn.Identity()
            for present in (self.residual and (normed or released), self.residual and normed and not released, normed)
        )

    def without_effect(self, cfg: IDPGConfig) -> dict[str, str]:
        reasons = super().without_effect(cfg)
        if self.places == (0,) and self.from_previous_layer:
            made_from = "the input's prompt is made from M(x)"
            reasons["representation"] = f"{made_from}: leave it out or give --representation backbone"
        # both change only the input's prompt
        for name in ("generator_residual", "generator_layer_norm"):
            if 0 not in self.places:
                reasons[name] = f"--prompt-layers {cfg.prompt_layers} leaves out layer 0: leave it out or add 0"
            elif not self.in_input:
                insertion = f"--prompt-insertion {cfg.prompt_insertion} puts no rows into the input"
                reasons[name] = f"{insertion}: leave it out or give add"
        if self.representation is None:
            reasons["representation_dropout"] = "no layer reads M(x): leave it out or add 0 to --prompt-layers"
        return reasons

    @property
    def initial_rows(self) -> nn.Parameter:
        return self.bias

    def begin_pass(self, representation: Tensor | None) -> PromptAt:
        c0: Any = None if representation is None else self.dropout(representation)
        generators = [generator.ready() for generator in self.generators]
        biases = self.bias.unbind()

        def prompt_at(place: int, states: Any) -> Tensor:
            number = self.places.index(place)
            # a copy: a view kept for W1's gradient would keep the layer's whole output
            c = states.sentence.clone() if place and self.from_previous_layer else c0
            # a single generator or bias serves all places
            prompt = generators[number % len(generators)](c).view(c.size(0), self.rows, -1)
            prompt = prompt + biases[number % len(biases)]
            if place:
                return prompt
            # the variants of Table 7
            if self.residual:
                prompt = self.representation_layer_norm(c0)[:, None] + self.residual_layer_norm(prompt)
            return self.prompt_layer_norm(prompt)

        return prompt_at


single_layer = partial(
    register_preset, method=IDPG, prompt_layers="first", representation="backbone", generator_hidden_size=256
)
multi_layer = partial(
    register_preset, method=IDPG, prompt_layers="all", representation=PREVIOUS_LAYER, generator_hidden_size=16
)
single_layer("s-idpg-phm", paper="105K", generator="phm", phm_shared_a="true")
single_layer("s-idpg-dnn", paper="1.5M", generator="dnn")
multi_layer("m-idpg-phm", paper="134K", generator="phm")
multi_layer("m-idpg-dnn", paper="216K", generator="dnn")
multi_layer("m-idpg-phm-glove", paper="141K", generator="phm", phm_n=4, representation=GLOVE)
