"""What every method promises: a row for each preset, and the whole encoder written out with any method in it.

A test module of ``tests/methods`` holds ``CONTRACT``, preset -> ``Row``: what only a person can say of its method. It
is found by being there; ``tests/methods/test_contract.py`` tries every promise on every preset of the registry.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_idpg.backbone.cpu import QuickDropout
from fairseq_idpg.backbone.encoder import activation
from fairseq_idpg.methods.base import Method
from fairseq_idpg.methods.prompts.base import PromptMethod
from fairseq_idpg.methods.registry import PRESETS, find_preset
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from tests.helpers import enlarge, tiny_model
from tests.models.started import set_initial_values
from tests.plain import plain_embedding, plain_layer
from tests.sources import give_sources

FIRST_WORD = 4  # ids below are no words
LENGTH, VECTORS = 3, 8
SIZES = {"encoder_embed_dim": 16, "encoder_ffn_embed_dim": 32, "encoder_attention_heads": 2}
HEAD = {
    f"classification_heads.sentence_classification_head.{layer}.{part}"
    for layer in ("dense", "out_proj")
    for part in ("weight", "bias")
}
SMALL = {  # of options that a method has, where they act
    **{"prompt_length": LENGTH, "generator_hidden_size": 8, "phm_n": 4, "reparameterization_hidden_size": 5},
    **{"words_rank": 2, "words_length": 4, "ept_hidden_size": 3, "representation_width": VECTORS},
    **{"adapter_hidden_size": 4, "lora_rank": 2},
}


class Text(NamedTuple):
    """One example on its way through the encoder, T x d each.

    Attributes:
        args: the model's options.
        words: its word embeddings.
        below: the states below the place of the prompt; at the input the words.
        embedded: what enters layer 0.
        last: the frozen backbone's last states on the text alone.
        sentence: M(x), d, or the mean of its word vectors.
    """

    args: argparse.Namespace
    words: Tensor
    below: Tensor
    embedded: Tensor | None
    last: Tensor
    sentence: Tensor


@dataclass(frozen=True)
class Row:
    """What a preset promises beside that which is the same for all.

    Attributes:
        count: numbers that the method has at RoBERTa-large's size.
        own: names of its parameters, as checkpoints have them behind ``method.``.
        by_hand: the method written out. A prompt: (module, number of the place, ``Text``) -> rows x d; another:
            (module, layer) -> keywords of ``plain_layer``. None: compared elsewhere.
        behind_embedding: a prompt's first rows join behind the embedding, where 0 stood among the words.
        places: of a prompt, (module, ``Text``, tokens T) -> where each token stands; None: where it is.
        straight_through: names of parameters whose choice has a gradient that the hand-written pass has not.
        added: of a prompt, module -> M x d, added to the word embeddings of the first M tokens.
        folded: numbers that are left of ``count`` once it is trained.
        kept: names of what is saved besides ``own``.
        trains: whether a parameter of the backbone is trained, by its name in the stack.
        of_backbone: how many numbers of RoBERTa-large those are.
        start: how far states may be from stock RoBERTa's before the first update; None: anywhere.
        options: with which it is tried, of which the hand-written pass knows.
        variants: options of the same class that are compared with the hand-written pass too.
        published: options as the paper or its code has them, which neither equation nor count shows.
    """

    count: int
    own: str = ""
    by_hand: Callable[..., Any] | None = None
    behind_embedding: bool = False
    places: Callable[[Any, Any, int], list[int]] | None = None
    straight_through: str = ""
    added: Callable[[Any], Tensor] | None = None
    folded: int | None = None
    kept: str = ""
    trains: Callable[[str], bool] = lambda name: False
    of_backbone: int = 0
    start: float | None = None
    options: dict[str, Any] = field(default_factory=dict)
    variants: tuple[dict[str, Any], ...] = ()
    published: dict[str, Any] = field(default_factory=dict)


@cache
def table() -> dict[str, Row]:
    """Preset -> row, of every test module of the methods."""
    root = Path(__file__).parents[1]
    paths = sorted(Path(__file__).with_name("methods").rglob("test_*.py"))
    modules = [import_module(".".join(path.relative_to(root).with_suffix("").parts)) for path in paths]
    rows = [item for module in modules for item in getattr(module, "CONTRACT", {}).items()]
    assert len(rows) == len(dict(rows)), "a preset has two rows"
    return dict(rows)


@cache
def written() -> dict[type[Method], Row]:
    """Class -> the row that has it written out."""
    alone = {name: preset.methods for name, preset in PRESETS.items() if len(preset.methods) == 1 and name in table()}
    return {method: table()[name] for name, (method,) in alone.items() if table()[name].by_hand}


def small(**options: Any) -> dict[str, Any]:
    """``options`` of a preset, or of several joined by +, and small sizes for those that it has and that act."""
    preset = find_preset(options["method"])
    values = {**preset.defaults, **options}
    needs = {name: declared.metadata["only_with"] for name, declared in preset.options.items()}
    acting = {name for name, need in needs.items() if need is None or str(values[need[0]]) in need[1]}
    return {**{name: value for name, value in SMALL.items() if name in acting}, **options}


def build(**options: Any) -> RobertaIDPGModel:
    """A tiny model as a run starts with it, and made up ``vectors`` of a batch where its method reads some."""
    model = tiny_model(**{**SIZES, **small(**options)})
    give_sources(model)
    set_initial_values(model)
    model.vectors, forward = None, model.forward
    if getattr(model.method, "representation", None) == "glove":
        model.vectors = torch.randn(9, VECTORS)
        model.forward = lambda tokens, **more: forward(tokens, representation=model.vectors[: len(tokens)], **more)
    return model


def parts_of(model: RobertaIDPGModel) -> list[Method]:
    """The methods of a model: none, one, or those that are joined."""
    return [] if model.method is None else list(getattr(model.method, "parts", [model.method]))


def exact(model: RobertaIDPGModel) -> RobertaIDPGModel:
    """The model with values that matter, without dropout, its functions as precise as its numbers."""
    for module in (model.encoder, *parts_of(model)):
        enlarge(module)
    for module in model.modules():
        if isinstance(module, (nn.Dropout, QuickDropout)):
            module.p = 0.0
        for name in ("activation_fn", "activation"):  # fairseq's own gelu rounds to float32
            if getattr(module, name, None) is activation("gelu"):
                setattr(module, name, F.gelu)
    for part in parts_of(model.eval()):  # which folds what training makes
        if getattr(part, "reparameterization", None) is not None:
            part.train()  # folded it has no gradient
    return model


def plain_features(model: RobertaIDPGModel, ids: Tensor, number: int = 0) -> Tensor:
    """T x d last states of a batch's example, prompt rows of the input behind its ``<s>``; late rows are left out."""
    stack, parts = model.encoder.sentence_encoder, parts_of(model)
    prompt: Any = next((part for part in parts if isinstance(part, PromptMethod)), None)
    others = [(part, written()[type(part)].by_hand) for part in parts if part is not prompt]
    if prompt is None:
        x = plain_embedding(stack, ids)
        for i, layer in enumerate(stack.layers):
            x = plain_layer(layer, x, **beside(others, i))
        return x

    row = written()[type(prompt)]
    words = torch.stack([stack.embed_tokens.weight[i] for i in ids])
    last = plain_embedding(stack, ids)
    for layer in stack.layers:
        last = plain_layer(layer, last)
    of_the_text = words[ids >= FIRST_WORD]
    means = {"mean-pooled": sum(last) / len(last), "token-mean": sum(of_the_text) / len(of_the_text)}
    means |= {} if model.vectors is None else {"glove": model.vectors[number]}
    text = Text(model.args, words, words, None, last, means.get(str(prompt.representation), last[0]))

    def rows(place: int, below: Tensor) -> Tensor:
        return row.by_hand(prompt, prompt.places.index(place), text._replace(below=below))

    # the input: <s>, the prompt, the text
    wide = torch.cat([ids[:1], torch.full((prompt.prompt_length,), 3), ids[1:]])
    added = row.added(prompt)[: len(ids)] if row.added else []
    at = {j + prompt.prompt_length * (j > 0): value for j, value in enumerate(added)}
    first = rows(0, words) if prompt.in_input else None
    zero = torch.zeros_like(first) if row.behind_embedding and prompt.in_input else first
    places = row.places(prompt, text, len(wide)) if row.places and prompt.in_input else None
    x = plain_embedding(stack, wide, zero, 1, words=at, places=places)
    text, length, count = text._replace(embedded=x), len(wide), model.args.prompt_length

    def changed(x: Tensor, new: Tensor) -> Tensor:
        new = new if prompt.insertion == "replace" else new + x[1 : 1 + count]
        return torch.cat([x[:1], new, x[1 + count :]])

    x = changed(x, first) if first is not None and row.behind_embedding else x
    for i, layer in enumerate(stack.layers):
        prefix = None
        if i in prompt.places and prompt.insertion == "late":
            x = torch.cat([x, rows(i, x)])
        elif i in prompt.places and not prompt.in_input:
            keys, values = rows(i, x).split(count)
            if prompt.insertion == "key-value-input":
                keys, values = layer.self_attn.k_proj(keys), layer.self_attn.v_proj(values)
            prefix = keys, values
        x = plain_layer(layer, x, prefix=prefix, **beside(others, i))
        if prompt.in_input and i + 1 in prompt.places:
            x = changed(x, rows(i + 1, x))
    return x[:length]


def beside(others: list[tuple[Any, Any]], layer: int) -> dict[str, Any]:
    """Keywords of ``plain_layer``: what methods without a prompt have in a layer."""
    return {name: value for part, by_hand in others for name, value in by_hand(part, layer).items()}
