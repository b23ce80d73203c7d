"""RoBERTa, IDPG and adapters written out plainly: one example, one head, one row at a time."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn


def plain_embedding(stack, ids: Tensor, rows: Tensor | None = None, at: int = 0, words=None) -> Tensor:
    """T ids -> T x d, with ``rows`` in place of the word embeddings from index ``at`` on.

    ``words``: index -> what is added to the word embedding there.
    """
    x = torch.stack([stack.embed_tokens.weight[i] for i in ids])
    if words:
        x = torch.stack([x[i] + words.get(i, 0) for i in range(len(ids))])
    if rows is not None:
        x = torch.cat([x[:at], rows, x[at + len(rows) :]])
    return stack.layernorm_embedding(torch.stack([x[i] + stack.embed_positions.weight[2 + i] for i in range(len(ids))]))


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
    inner = nn.functional.gelu(plain_linear(layer, "fc1", additions, x))
    h = plain_linear(layer, "fc2", additions, inner)
    return layer.final_layer_norm(x + (adapters[1](h, x, layer.final_layer_norm) if adapters[1] else h))


def plain_representation(stack, ids: Tensor) -> Tensor:
    """M(x): the last layer's state of the first token, d."""
    x = plain_embedding(stack, ids)
    for layer in stack.layers:
        x = plain_layer(layer, x)
    return x[0]


def gelu(x: float) -> float:
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def relu(x: float) -> float:
    return max(x, 0.0)


def layer_norm(x: np.ndarray, module) -> np.ndarray:
    centred = x - x.mean()
    normal = centred / np.sqrt((centred**2).mean() + module.eps)
    return normal * module.weight.detach().numpy() + module.bias.detach().numpy()


def plain_matrix(generator, which: str) -> np.ndarray:
    """W1 (``down``) or W2 (``up``) by the definition: dense, or entry by entry as a sum of Kronecker products."""
    if not hasattr(generator, "down_a"):
        return getattr(generator, which).detach().numpy()
    a = getattr(generator, f"{which}_a", generator.down_a).detach().numpy()
    b = getattr(generator, f"{which}_b").detach().numpy()
    n, p, q = a.shape
    _, r, s = b.shape
    out = np.zeros((p * r, q * s))
    for row in range(p * r):
        for column in range(q * s):
            out[row, column] = sum(a[i, row // r, column // s] * b[i, row % r, column % s] for i in range(n))
    return out


def plain_prompt(method, row: int, c: np.ndarray) -> np.ndarray:
    """The ``row``-th place's prompt for one example with input ``c`` (of any width): rows x d."""
    generator, bias = method.generators[row % len(method.generators)], method.bias[row % len(method.bias)]
    down, up, width = plain_matrix(generator, "down"), plain_matrix(generator, "up"), bias.size(-1)
    hidden = [gelu(sum(c * down[:, k]) + generator.hidden_bias[k].item()) for k in range(down.shape[1])]
    flat = [sum(np.array(hidden) * up[:, o]) for o in range(up.shape[1])]
    rows = []
    for p in range(method.rows):
        out = np.array(flat[p * width : (p + 1) * width]) + bias[p].detach().numpy()
        if row == 0:
            out = plain_variant(method, c, out)
        rows.append(out)
    return np.stack(rows)


def plain_variant(method, c: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Table 7's residual and LayerNorms, with those that the method has."""
    norms = {name: module for name, module in method.named_children() if isinstance(module, nn.LayerNorm)}

    def normed(name: str, x: np.ndarray) -> np.ndarray:
        return layer_norm(x, norms[name]) if name in norms else x

    if method.residual:
        row = normed("representation_layer_norm", c) + normed("residual_layer_norm", row)
    return normed("prompt_layer_norm", row)


def gelu_tanh(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def plain_adapter_matrices(method, k: int) -> tuple[Tensor, Tensor]:
    """W_down (d x m) and W_up (m x d) of the k-th adapter: dense, or W = sum_i A_i (x) (s_i t_i^T)."""
    if hasattr(method, "down"):
        return method.down[k], method.up[k]
    a = method.a[k if len(method.a) > 1 else 0]
    down, up = (
        sum(torch.kron(a[i], torch.outer(s[k, i], t[k, i])) for i in range(len(a)))
        for s, t in ((method.down_s, method.down_t), (method.up_s, method.up_t))
    )
    return down, up


def plain_adapter(method, k: int, activation):
    """The k-th adapter without its skip connection, token by token: T x d -> T x d."""
    down, up = plain_adapter_matrices(method, k)

    def adapter(x: Tensor) -> Tensor:
        rows = []
        for token in x:
            entering = [float(sum(token * down[:, j]) + method.down_bias[k, j]) for j in range(down.size(1))]
            hidden = torch.tensor([activation(value) for value in entering])
            rows.append(torch.stack([sum(hidden * up[:, o]) + method.up_bias[k, o] for o in range(up.size(1))]))
        return torch.stack(rows)

    return adapter


def plain_houlsby(method, i: int, activation):
    """Adapters of the i-th layer that has some, after attention and after the feed-forward: f + adapter(f)."""
    first, second = (plain_adapter(method, 2 * i + j, activation) for j in range(2))
    return (lambda f, x, norm: f + first(f)), (lambda f, x, norm: f + second(f))


def plain_pfeiffer(method, i: int, activation):
    """The adapter of the i-th layer that has one: it reads LN(f + x), its skip connection is f."""
    adapter = plain_adapter(method, i, activation)
    return None, lambda f, x, norm: f + adapter(norm(f + x))


def plain_parallel(method, i, activation, reads_output=False):
    """Adapters beside sublayers of the i-th layer that has some: f + s adapter(x), or behind them: f + s adapter(f)."""

    def beside(name: str):
        if name not in method.sublayers:
            return None
        k = len(method.sublayers) * i + method.sublayers.index(name)
        scale = method.scale[k].item() if torch.is_tensor(method.scale) else method.scale
        adapter = plain_adapter(method, k, activation)
        return lambda f, x, norm: f + scale * adapter(f if reads_output else x)

    return beside("attention"), beside("FFN")
