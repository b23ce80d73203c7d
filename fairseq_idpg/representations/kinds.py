"""M(x), the representation of a sentence that a prompt is generated from (IDPG Sections 3.1 and 4.5.1).

A frozen backbone computes it without gradient. Where some of the backbone's own weights are trained (supplementary
training, LayerNorms), the gradient flows through M(x) into them, as in the released code, which cuts it nowhere.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from fairseq.models.roberta.model import RobertaEncoder
from torch import Tensor

from ..backbone.encoder import in_mode
from ..backbone.injection import Start, States

GLOVE = "glove"  # rows that the task reads from the data folder, see preprocess/glove.py
PREVIOUS_LAYER = "previous-layer"
TOKEN_MEAN = "token-mean"  # which reads no layer
LAST_STATES = "last-states"  # of all tokens: no vector, and so in no cache


def sentence_state(encoder: RobertaEncoder, tokens: Tensor, **hints: Any) -> Tensor:
    """Return the last layer's ``<s>`` state: B x T tokens -> B x d."""
    return encoder(tokens, features_only=True, read=tokens.new_zeros(tokens.size(0)), **hints)[0][:, 0]


def mean_pooled(encoder: RobertaEncoder, tokens: Tensor, **hints: Any) -> Tensor:
    """Return the mean of the last layer's states over all tokens but pads: B x T tokens -> B x d."""
    features, _ = encoder(tokens, features_only=True, **hints)
    return masked_mean(features, tokens.ne(encoder.dictionary.pad()))


def token_mean(encoder: RobertaEncoder, tokens: Tensor, **hints: Any) -> Tensor:
    """Return the mean of the text's word embeddings, without special tokens: B x T tokens -> B x d."""
    return masked_mean(encoder.sentence_encoder.embed_tokens(tokens), tokens.ge(encoder.dictionary.nspecial))


def masked_mean(rows: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the rows that the mask chooses: B x T x d, B x T -> B x d; zeros where it chooses none."""
    weights = mask.unsqueeze(2).type_as(rows)
    return (rows * weights).sum(1) / weights.sum(1).clamp(min=1)


# what M(x) is at the input, by the name that --representation takes; glove rows come with the batch
REPRESENTATIONS: dict[str, Callable[..., Tensor]] = {
    "backbone": sentence_state,
    PREVIOUS_LAYER: sentence_state,
    "mean-pooled": mean_pooled,
    TOKEN_MEAN: token_mean,
}


def canonical_kind(kind: str) -> str:
    """Return the name of what M(x) is at the input: ``previous-layer`` is ``backbone`` there."""
    return "backbone" if kind == PREVIOUS_LAYER else kind


def last_states(encoder: RobertaEncoder, tokens: Tensor, **hints: Any) -> States:
    """Return the last layer's states of all tokens, ``sentence_state`` first: B x T tokens -> T x B x d."""
    features, _ = encoder(tokens, features_only=True, **hints)
    padding = None if hints.get("padded") is False else tokens.eq(encoder.dictionary.pad())
    return States(features.transpose(0, 1), padding)


READERS: dict[str, Callable[..., Any]] = {**REPRESENTATIONS, LAST_STATES: last_states}


def sentence_representation(
    encoder: RobertaEncoder,
    tokens: Tensor,
    dropout: bool = False,
    kind: str = "backbone",
    gradient: bool = False,
    **hints: Any,
) -> Any:
    """Return M(x) of the raw input: B x T tokens -> B x d; of ``last-states`` the ``States`` of all tokens.

    ``gradient``: for the encoder's own weights; ``hints``: to the encoder, ``padded`` and ``start``.

    Differs from the paper's code: there the frozen backbone's dropout stays on in training, and a sentence gets another
    representation at every step (``dropout=True`` restores that). Without dropout M(x) depends on the sentence alone
    and can be cached, as the paper suggests.
    """
    mode = contextlib.nullcontext() if dropout else in_mode(encoder, False)
    with mode, torch.set_grad_enabled(gradient and torch.is_grad_enabled()):
        return READERS[kind](encoder, tokens, **hints)


def pass_representation(
    model: Any, tokens: Tensor, stored: Any = None, padded: bool | None = None, start: Start | None = None
) -> Any:
    """Return M(x) as ``model.method`` reads it: B x w, or the ``States`` of all tokens; None if it reads none.

    ``tokens``: B x T, the raw input; ``stored``: what the batch brings, B x w (see ``stored.py``) or ``States``: then
    nothing is computed; ``start``: states of the tokens to begin with.
    """
    method = model.method
    if stored is not None:  # fairseq-validate --fp16 leaves the batch in float32
        is_vector = isinstance(stored, Tensor)
        return stored.type_as(model.encoder.sentence_encoder.embed_tokens.weight) if is_vector else stored
    if method.representation is None:
        return None
    return sentence_representation(
        method.encoder if method.own_encoder else model.encoder,
        tokens,
        dropout=method.representation_dropout,
        kind=method.representation,
        gradient=model.trains_encoder,
        padded=padded,
        start=None if method.own_encoder else start,
    )
