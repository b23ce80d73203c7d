"""RoBERTa and IDPG's generator written out plainly: one example, one head, one row at a time."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def plain_embedding(stack, ids: Tensor, rows: Tensor | None = None, at: int = 0, words=None, places=None) -> Tensor:
    """T ids -> T x d, with ``rows`` in place of the word embeddings from index ``at`` on.

    ``words``: index -> what is added to the word embedding there; ``places``: index -> where it stands, if elsewhere.
    """
    x = torch.stack([stack.embed_tokens.weight[i] for i in ids])
    if words:
        x = torch.stack([x[i] + words.get(i, 0) for i in range(len(ids))])
    if rows is not None:
        x = torch.cat([x[:at], rows, x[at + len(rows) :]])
    places = range(len(ids)) if places is None else places
    return stack.layernorm_embedding(
        torch.stack([x[i] + stack.embed_positions.weight[2 + p] for i, p in enumerate(places)])
    )


def plain_linear(module, name: str, additions, x: Tensor) -> Tensor:
    """One of a layer's Linears, and what is added to its output."""
    out = getattr(module, name)(x)
    return out + additions[name](x) if additions and name in additions else out


def plain_layer(layer, x: Tensor, prefix=None, adapters=(None, None), additions=None) -> Tensor:
    """One post-norm layer on T x d: LN(x + attention(x)), then LN(x + ffn(x))."""
    attention = layer.self_attn
    width = x.size(1) // attention.num_heads
    q, k, v = (plain_linear(attention, name, additions, x) for name in ("q_proj", "k_proj", "v_proj"))
    if prefix is not None:
        k, v = torch.cat([prefix[0], k]), torch.cat([prefix[1], v])
    context = []
    for head in range(attention.num_heads):
        part = slice(head * width, (head + 1) * width)
        weights = (q[:, part] @ k[:, part].T / math.sqrt(width)).softmax(-1)
        context.append(weights @ v[:, part])
    context = torch.cat(context, -1)
    if additions and "heads" in additions:
        context = context + additions["heads"](q)
    h = plain_linear(attention, "out_proj", additions, context)
    x = layer.self_attn_layer_norm(x + (adapters[0](h, x, layer.self_attn_layer_norm) if adapters[0] else h))
    inner = F.gelu(plain_linear(layer, "fc1", additions, x))
    h = plain_linear(layer, "fc2", additions, inner)
    return layer.final_layer_norm(x + (adapters[1](h, x, layer.final_layer_norm) if adapters[1] else h))


def plain_representation(stack, ids: Tensor) -> Tensor:
    """M(x): the last layer's state of the first token, d."""
    x = plain_embedding(stack, ids)
    for layer in stack.layers:
        x = plain_layer(layer, x)
    return x[0]


def plain_linear_of(module: nn.Module, x: Tensor) -> Tensor:
    """W x + b, output by output."""
    return torch.stack([x @ row for row in module.weight]) + (0 if module.bias is None else module.bias)


def plain_matrix(generator: nn.Module, which: str) -> Tensor:
    """W1 (``down``) or W2 (``up``), to be multiplied from the right: dense, or a sum of Kronecker products."""
    if not hasattr(generator, "down_a"):
        return getattr(generator, which)
    a, b = getattr(generator, f"{which}_a", generator.down_a), getattr(generator, f"{which}_b")
    return sum(torch.kron(one, other) for one, other in zip(a, b))


def plain_prompt(method: nn.Module, number: int, c: Tensor) -> Tensor:
    """IDPG's rows for its ``number``-th place from one example's ``c`` (of any width): rows x d."""
    generator, bias = method.generators[number % len(method.generators)], method.bias[number % len(method.bias)]
    hidden = F.gelu(c @ plain_matrix(generator, "down") + generator.hidden_bias)
    rows = (hidden @ plain_matrix(generator, "up")).view(bias.shape) + bias
    return rows if method.places[number] else torch.stack([plain_variant(method, c, row) for row in rows])


def plain_variant(method: nn.Module, c: Tensor, row: Tensor) -> Tensor:
    """Table 7's residual and LayerNorms, with those that the method has."""
    norms = {name: module for name, module in method.named_children() if isinstance(module, nn.LayerNorm)}

    def normed(name: str, x: Tensor) -> Tensor:
        if name not in norms:
            return x
        centred = x - x.mean()
        return centred / (centred.square().mean() + norms[name].eps).sqrt() * norms[name].weight + norms[name].bias

    if method.residual:
        row = normed("representation_layer_norm", c) + normed("residual_layer_norm", row)
    return normed("prompt_layer_norm", row)
