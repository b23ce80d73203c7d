"""The encoder with every slot, written out plainly, and the comparison of the two."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairseq_idpg.backbone.injection import NO_ROOM, Room, States
from tests.helpers import PAD, TINY, prompted
from tests.plain import plain_embedding, plain_layer

LAYERS, WIDTH = TINY["encoder_layers"], TINY["encoder_embed_dim"]
COUNT = 2  # rows of a prompt


def leaf(*shape: int) -> Tensor:
    return (torch.randn(*shape) * 0.5).requires_grad_()


class Reader(nn.Module):
    """Rows from all states of a sequence: W sum_i softmax_i(x_i q) x_i + b; in a batch, and of one example alone."""

    def __init__(self, count: int = COUNT):
        super().__init__()
        self.query = nn.Parameter(torch.randn(WIDTH) * 0.5)
        self.make = nn.Linear(WIDTH, count * WIDTH)

    def forward(self, states: States) -> Tensor:
        scores = states.x @ self.query  # T x B
        if states.padding is not None:
            scores = scores.masked_fill(states.padding.t(), float("-inf"))
        return self.make((scores.softmax(0)[..., None] * states.x).sum(0)).unflatten(1, (-1, WIDTH))

    def alone(self, x: Tensor) -> Tensor:
        """T x d -> rows x d."""
        weights = torch.stack([token @ self.query for token in x]).softmax(0)
        return self.make(sum(weight * token for weight, token in zip(weights, x))).view(-1, WIDTH)


def plain_pass(model, tokens, text=None, at=None, embedded=None, words=None, **slots) -> list[Tensor]:
    """T x d states of each example's real tokens, each example alone, layer by layer.

    ``embedded``: (example, T x d plain word embeddings of its text) -> rows; ``words``: example -> {index: what is
    added}; ``slots`` of a layer by its number: ``late`` and ``hidden`` (x, example) -> rows, ``prefix`` (x, example,
    attention) -> keys, values, ``adapters``, ``additions``.
    """
    stack, outputs = model.encoder.sentence_encoder, []
    for example, row in enumerate(tokens):
        ids, begin = row[row != PAD], None if at is None else int(at[example])
        rows = None
        if embedded is not None:
            own = text[example]
            own = torch.stack([stack.embed_tokens.weight[i] for i in own[own != PAD]])
            rows = embedded(example, own)
        x = plain_embedding(stack, ids, rows, begin or 0, words(example) if words else None)
        for i, layer in enumerate(stack.layers):
            if i in slots.get("late", {}):
                x = torch.cat([x, slots["late"][i](x, example)])
            x = plain_layer(
                layer,
                x,
                prefix=slots["prefix"][i](x, example, layer.self_attn) if i in slots.get("prefix", {}) else None,
                adapters=slots.get("adapters", {}).get(i, (None, None)),
                additions=slots.get("additions", {}).get(i),
            )
            if i in slots.get("hidden", {}):
                rows = slots["hidden"][i](x, example) + x[begin : begin + COUNT]
                x = torch.cat([x[:begin], rows, x[begin + COUNT :]])
        outputs.append(x[: len(ids)])
    return outputs


def check(model, tokens, injection, expected, leaves, room=NO_ROOM):
    """Equal states of all real tokens, and equal gradients, none of them zero; in either mode, pads told of or not."""
    draws = [torch.randn_like(states) for states in expected]
    theirs = torch.autograd.grad(sum((draw * states).sum() for draw, states in zip(draws, expected)), leaves)
    padded = bool(tokens.eq(PAD).any())
    for told, training in ((None, True), (padded, False), (True, True)):
        model.train(training)
        features, _ = model.encoder(tokens, features_only=True, injection=injection, room=room, padded=told)
        found = [features[example, : len(states)] for example, states in enumerate(expected)]
        for mine, states in zip(found, expected):
            torch.testing.assert_close(mine, states, atol=1e-10, rtol=0)
        ours = torch.autograd.grad(sum((draw * states).sum() for draw, states in zip(draws, found)), leaves)
        for mine, plain in zip(ours, theirs):
            assert plain.any()
            torch.testing.assert_close(mine, plain, atol=1e-8 * float(plain.abs().max()), rtol=0)


def make_room(tokens: Tensor, position: int = 0) -> tuple[Tensor, Room]:
    extra = prompted(tokens, position, COUNT)
    return extra.prompted_tokens, Room(extra.prompt_offset, COUNT, tokens)


def text_places(wide: Tensor, room: Room, position: int) -> list[list[int]]:
    """Of each example: where its text stands in the lengthened sequence, counted out."""
    found = []
    for example, row in enumerate(wide):
        begin, beside = int(room.offset[example]), 1 if position == 4 else 0
        block = range(begin - beside, begin + COUNT + beside)
        found.append([i for i in range(int(row.ne(PAD).sum())) if i not in block])
    return found
