"""fairseq's RoBERTa encoder with its slots open, by subclassing its own chain of ``build_*`` methods.

RobertaEncoder.build_encoder -> TransformerEncoder.build_encoder_layer -> TransformerEncoderLayer.build_self_attention

An ``Injection`` is handed down from the model's forward to the attention; each class fills its slots:

- OpenTransformerEncoder: words and input at the embedding, late before and hidden after a layer
- OpenEncoderLayer:       sublayer, and projection of the feed-forward
- OpenAttention:          key/value, and projection of the attention

With nothing injected the encoder equals fairseq's bit for bit, until a run on a CPU packs its weights. Its state-dict
keys are RoBERTa's. A model with a method draws dropout as ``cpu`` says. On a CPU it computes no pads, so the states of
a padded text differ by rounding. Autograd keeps nothing below the first slot or weight that has a gradient.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.models.roberta.model import RobertaEncoder
from fairseq.models.transformer import TransformerConfig, TransformerEncoder
from fairseq.modules import MultiheadAttention
from fairseq.modules import gelu as stock_gelu
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import Tensor, is_grad_enabled, nn
from torch.utils.checkpoint import checkpoint

from .cpu import ALL, QuickDropout, Tokens, dropped_attention, real_tokens
from .injection import (
    INSERTIONS,
    NO_ADDITIONS,
    NO_ROOM,
    NOTHING,
    Additions,
    Injection,
    Origin,
    Prefix,
    Room,
    Start,
    States,
    add_to_prompted_words,
    add_to_words,
    append_rows,
    replace_rows,
)


def project(module: nn.Module, name: str, x: Tensor, additions: Additions) -> Tensor:
    """Return W x + b + addition(x) for Linear ``name`` of ``module``; x: ... x in -> ... x out."""
    out, addition = getattr(module, name)(x), getattr(additions, name)
    return out if addition is None else out + addition(x).type_as(out)


@lru_cache(maxsize=2)
def key_bias(padding: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    """Return the bias of attention scores, B x 1 x 1 x (rows + T): -inf at pads (true in B x T ``padding``), else 0.

    ``rows``: keys in front of the text. The result is remembered, since the layers of a pass share their padding, and
    on a GPU an operation on a mask takes as long as one on states.
    """
    bias = torch.zeros(padding.shape, dtype=dtype, device=padding.device).masked_fill_(padding, float("-inf"))
    return F.pad(bias, (rows, 0))[:, None, None]


class OpenAttention(MultiheadAttention):
    """softmax(q [K'; k]^T / sqrt(d/H)) [V'; v] for each head, bitwise equal to fairseq's when nothing is injected.

    fairseq hands the weights of the projections to one fused torch function. Here they are called one by one, so that
    something can be added to their outputs, and keys and values can join theirs.
    """

    def forward(
        self,
        x: Tensor,
        padding: Tensor | None = None,
        prefix: Prefix | None = None,
        additions: Additions = NO_ADDITIONS,
        tokens: Tokens = ALL,
        asking: Tensor | None = None,
    ) -> Tensor:
        """Map T x B x d ``x``, or its ``tokens``, N x 1 x d, to the same shape; ``padding``: B x T, true at pads.

        ``asking``: B x 1 x d, one token of each example; only its output is computed, B x 1 x d.
        """
        # in fairseq's order, in which their gradients are summed
        queries = project(self, "q_proj", x if asking is None else asking, additions)
        keys, values = project(self, "k_proj", x, additions), project(self, "v_proj", x, additions)
        # projections work token by token; attention needs whole sequences
        q = self._heads(tokens.spread(queries) if asking is None else queries.transpose(0, 1))
        k, v = self._heads(tokens.spread(keys)), self._heads(tokens.spread(values))
        prefix_length = 0
        # the prefix joins keys and values in front; 1 x p x d is the same in every example
        if prefix is not None:
            rows = [each.type_as(x).transpose(0, 1) for each in (prefix.keys, prefix.values)]
            if prefix.before_projection:
                rows = [project(self, *named, additions) for named in zip(("k_proj", "v_proj"), rows)]
            pairs = zip([self._heads(each) for each in rows], (k, v))  # B (or 1) x H x p x d/H
            k, v = (torch.cat([each.type_as(own).expand(own.size(0), -1, -1, -1), own], 2) for each, own in pairs)
            prefix_length = prefix.keys.size(1)
        bias = None if padding is None else key_bias(padding, prefix_length, q.dtype)
        dropout = self.dropout_module
        if isinstance(dropout, QuickDropout) and dropout.draws_quickly(q):
            out = dropped_attention(q, k, v, bias, dropout.p)
        else:
            p = dropout.p if self.training or dropout.apply_during_inference else 0.0
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=p)  # B x H x T x d/H
        # contiguous: torch 2.4 rounds a product of rows that do not lie together in another way
        out = out.permute(2, 0, 1, 3).contiguous().flatten(2)
        out = tokens.of(out) if asking is None else out.transpose(0, 1)
        if additions.heads is not None:
            out = out + additions.heads(queries).type_as(out)
        return project(self, "out_proj", out, additions)

    def _heads(self, x: Tensor) -> Tensor:
        """T x B x d -> B x H x T x d/H, by fairseq's own steps: a gradient that lies otherwise rounds otherwise."""
        length, batch, _ = x.shape
        heads = x.reshape(length, batch * self.num_heads, self.head_dim).transpose(0, 1)
        return heads.view(batch, self.num_heads, length, self.head_dim)


def gelu(x: Tensor) -> Tensor:
    """Apply fairseq's GELU; on devices other than a CPU compute it in the precision of ``x``.

    Half-precision kernels of these devices compute in float32 anyway. fairseq's copy of ``x`` in float32, as wide as
    the feed-forward, would be kept for the gradient: a third of what a layer keeps.
    """
    return stock_gelu(x) if x.device.type == "cpu" else F.gelu(x)


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """Return fairseq's activation of this name, but ``gelu`` above for fairseq's GELU."""
    function = utils.get_activation_fn(name)
    return gelu if function is stock_gelu else function


class OpenEncoderLayer(TransformerEncoderLayerBase):
    """LN(x + f(x)) for f = attention, then for f = feed-forward."""

    index: int  # the place in the stack, from 0
    skips_pads = False  # what leaves the layer is 0 at pads, of which nothing but attention is computed

    def __init__(self, cfg):
        super().__init__(cfg)
        self.activation_fn = activation(cfg.activation_fn)

    def build_self_attention(self, embed_dim, cfg):
        return OpenAttention(embed_dim, cfg.encoder.attention_heads, dropout=cfg.attention_dropout, self_attention=True)

    def forward(self, states: States, injection: Injection = NOTHING, read: Tensor | None = None) -> Tensor:
        """T x B x d -> T x B x d, or 1 x B x d for the tokens ``read``, B numbers."""
        # On a CPU pads are left out of everything but attention.
        tokens = real_tokens(states.padding) if self.skips_pads else ALL
        x, additions = tokens.of(states.x), injection.projection(self.index)
        after_attention, after_ffn = injection.sublayer(self.index)

        # Attention, to the tokens of the sequence and the rows of the prefix. With ``read`` only these tokens ask.
        prefix = injection.key_value(self.index, states)
        asking = None if read is None else states.x[read, torch.arange(read.size(0), device=read.device)][:, None]
        f = self.dropout_module(self.self_attn(x, states.padding, prefix, additions, tokens, asking))
        x = x if asking is None else asking
        if after_attention is not None:
            f = after_attention(f, x, self.self_attn_layer_norm)
        x = self.self_attn_layer_norm(x + f)

        # Feed-forward, token by token.
        inner = self.activation_dropout_module(self.activation_fn(project(self, "fc1", x, additions)))
        f = self.dropout_module(project(self, "fc2", inner, additions))
        if after_ffn is not None:
            f = after_ffn(f, x, self.final_layer_norm)
        x = self.final_layer_norm(x + f)
        return tokens.spread(x) if asking is None else x.transpose(0, 1)


class OpenTransformerEncoder(TransformerEncoder):
    """The stack of layers.

    ``forward`` restates fairseq's, which asks the device before every layer whether there are pads, and lets nothing
    enter between two layers.
    """

    def __init__(self, args, dictionary, embed_tokens):
        super().__init__(args, dictionary, embed_tokens)
        # from this layer on, autograd keeps only each layer's input; layers are run again for the gradient
        self.checkpointed_from = len(self.layers)
        for index, layer in enumerate(self.layers):
            layer.index = index

    def build_encoder_layer(self, args):
        return OpenEncoderLayer(TransformerConfig.from_namespace(args))

    def forward(
        self,
        src_tokens: Tensor,
        return_all_hiddens: bool = False,
        injection: Injection = NOTHING,
        room: Room = NO_ROOM,
        padded: bool | None = None,
        start: Start | None = None,
        read: Tensor | None = None,
    ) -> dict[str, list[Tensor]]:
        """Run the embedding and the layers, with what ``injection`` adds at each of them.

        Args:
            src_tokens: B x T, with placeholders where rows of the input go, in the ``room`` for them.
            padded: whether there are pads; None: unknown, see ``_padding``.
            start: where to begin; nothing below is run.
            read: B, the token of each example whose last state is wanted; None: all. It is exact: the last layer
                computes keys and values of all tokens, and everything else for these alone.

        Return ``encoder_out``, [T x B x d], or [1 x B x d] with ``read``, and ``encoder_states``: on request those
        around each layer that is run.
        """
        # The embedding, with rows of the words and the input in it. It is computed once, when it is asked for: layers
        # further up may make late rows from it, also in a pass that begins above it.
        padding, length = self._padding(src_tokens, padded), src_tokens.size(1)
        words = partial(self.word_states, src_tokens, injection.words, room)

        @lru_cache(None)
        def embed() -> States:
            return self._embedded(src_tokens, self.word_embeddings(src_tokens, injection, room, words), padding)

        if start is None:
            first, states = 0, embed()._replace(origin=Origin(words, embed))
        else:
            assert injection.words is None and injection.input is None  # no words are embedded
            first, states = start.layer, States(start.x, padding, Origin(words, embed))

        def changed(states: States, below: int) -> States:
            rows = injection.hidden(below, states)
            return states if rows is None else states._replace(x=INSERTIONS[injection.insertion](states.x, rows, room))

        # Late rows join the sequence before a layer; rows of the prompt change after it, and after the embedding.
        states = states if first else changed(states, -1)
        hiddens = [states.x] if return_all_hiddens else []
        for layer in islice(self.layers, first, None):
            states = append_rows(states, injection.late(layer.index, states))
            if read is not None and layer.index == len(self.layers) - 1:
                return {"encoder_out": [self._run(layer, states, injection, read)], "encoder_states": []}
            states = changed(states._replace(x=self._run(layer, states, injection)), layer.index)
            if return_all_hiddens:
                hiddens.append(states.x[:length])

        # Late rows, behind the text, are not returned: callers expect the states of ``src_tokens``.
        x = states.x if states.x.size(0) == length else states.x[:length]
        return {"encoder_out": [x], "encoder_states": hiddens}

    def _run(self, layer: Any, states: States, injection: Injection, read: Tensor | None = None) -> Tensor:
        """Return T x B x d, what ``layer`` gives; it is run again in the backward pass if it is checkpointed.

        fairseq's own wrapper of checkpointed layers loses the gradient of a frozen input.
        """
        if layer.index < self.checkpointed_from or not is_grad_enabled():
            return layer(states, injection, read)
        # made here, since a method makes the prefix once a pass, and the second run would not get it
        prefix = injection.key_value(layer.index, states)
        injection = replace(injection, key_value=lambda index, states: prefix)
        # the second run has the mode of the first: M(x) has no dropout, and its backward pass comes in training mode
        mode = layer.training
        return checkpoint(
            lambda *parts: layer(States(*parts), injection, read),
            *states,
            use_reentrant=False,
            context_fn=lambda: (nullcontext(), in_mode(layer, mode)),
        )

    def states_before(self, layer: int, tokens: Tensor, padded: bool | None = None) -> Tensor:
        """Return the states that enter ``layer`` (L: those that leave the last), T x B x d, with nothing injected."""
        states = self._embedded(tokens, None, self._padding(tokens, padded))
        for below in islice(self.layers, layer):
            states = states._replace(x=below(states))
        return states.x

    def _padding(self, tokens: Tensor, padded: bool | None) -> Tensor | None:
        """Return B x T, true at pads, or None without pads."""
        if padded is False:
            return None
        padding = tokens.eq(self.padding_idx)
        # asking a GPU would wait for it, and a mask without pads gives the same result up to rounding
        can_look = padded is None and tokens.device.type == "cpu"
        return None if can_look and not padding.any() else padding

    def word_states(self, tokens: Tensor, added: Any, room: Room) -> States:
        """Return the word embeddings of the text without its prompt, with ``added`` rows."""
        text = room.text if room.length else tokens
        x = self.embed_tokens(text.t())
        return States(x if added is None else add_to_words(x, added), text.eq(self.padding_idx))

    def _embedded(self, tokens: Tensor, word_embeddings: Tensor | None, padding: Tensor | None) -> States:
        """Return the states that enter layer 0; ``word_embeddings``: B x T x d, or None for those of ``tokens``."""
        x, _ = self.forward_embedding(tokens, word_embeddings)  # B x T x d
        # as fairseq does, pads enter as 0
        if padding is not None:
            x = x * (1 - padding.unsqueeze(-1).type_as(x))
        return States(x.transpose(0, 1), padding)

    def word_embeddings(
        self, tokens: Tensor, injection: Injection, room: Room, word_states: Callable[[], States]
    ) -> Tensor | None:
        """Return B x T' x d word embeddings with ``words`` and ``input`` in them; None if both are empty."""
        words, rows = injection.words, injection.input
        if words is None and rows is None:
            return None
        if callable(rows):
            rows = rows(word_states())
        x = self.embed_tokens(tokens.t())  # T' x B x d
        if words is not None and room.length and not callable(words):
            x = add_to_prompted_words(x, words, room, self.padding_idx)
        elif words is not None:
            x = add_to_words(x, words)
        if rows is not None:
            x = replace_rows(x, rows, room.numbers)
        if injection.arrange is not None:
            real = tokens.ne(self.padding_idx)
            x, moved = injection.arrange(x, real.sum(1), room)
            # the embedding adds the position of the place that a token leaves
            table, places = self.embed_positions.weight, real.cumsum(1) * real + self.padding_idx
            x = x + (table[places + moved] - table[places]).transpose(0, 1)
        return x.transpose(0, 1)


@contextmanager
def in_mode(module: nn.Module, training: bool) -> Iterator[None]:
    """Run a block with ``module`` in training or in evaluation mode, then put the mode of each part back.

    ``Module.train`` would take six times as long, 2 ms a step for 24 layers.
    """
    others = [part for part in module.modules() if part.training is not training]
    try:
        for part in others:
            vars(part)["training"] = training
        yield
    finally:
        for part in others:
            vars(part)["training"] = not training


class OpenRobertaEncoder(RobertaEncoder):
    """RoBERTa's encoder over the open stack, with the backbone's own LayerNorm epsilon (BERT's is 1e-12)."""

    def build_encoder(self, args, dictionary, embed_tokens):
        encoder = OpenTransformerEncoder(args, dictionary, embed_tokens)
        encoder.apply(init_bert_params)
        for module in encoder.modules():
            if hasattr(module, "normalized_shape"):  # LayerNorms, torch's or apex's fused ones
                module.eps = args.layer_norm_eps
        return encoder

    def build_lm_head(self, embed_dim, output_dim, activation_fn, weight):
        head = super().build_lm_head(embed_dim, output_dim, activation_fn, weight)
        head.layer_norm.eps = self.args.layer_norm_eps
        return head

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        masked_tokens: Tensor | None = None,
        **pass_options: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return (B x T x d or B x T x symbols, {"inner_states": None, or T x B x d before and after each layer}).

        fairseq's forward would drop ``pass_options``: ``injection``, ``room``, ``padded``, ``start``, ``read``.
        """
        x, extra = self.extract_features(src_tokens, return_all_hiddens, **pass_options)
        return (x if features_only else self.output_layer(x, masked_tokens=masked_tokens)), extra

    def extract_features(self, src_tokens: Tensor, return_all_hiddens: bool = False, **pass_options: Any):
        out = self.sentence_encoder(src_tokens, return_all_hiddens, **pass_options)
        return out["encoder_out"][0].transpose(0, 1), {"inner_states": out["encoder_states"] or None}
