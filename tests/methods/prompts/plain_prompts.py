"""Every prompt method written out for one example, row by row, and the pass that its rows take part in."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.plain import plain_embedding, plain_layer

FIRST_WORD = 4  # ids below are no words


def weight(matrix: torch.nn.Module, x: Tensor) -> Tensor:
    return torch.stack([x @ row for row in matrix.weight]) + (0 if matrix.bias is None else matrix.bias)


def kronecker(generator, which: str) -> Tensor:
    """W1 or W2 of IDPG's generator, to be multiplied from the right."""
    if hasattr(generator, which):
        return getattr(generator, which)
    a, b = getattr(generator, f"{which}_a", generator.down_a), getattr(generator, f"{which}_b")
    return sum(torch.kron(one, other) for one, other in zip(a, b))


def idpg_rows(method, number: int, c: Tensor) -> Tensor:
    generator, bias = method.generators[number % len(method.generators)], method.bias[number % len(method.bias)]
    hidden = F.gelu(c @ kronecker(generator, "down") + generator.hidden_bias)
    return (hidden @ kronecker(generator, "up")).view(bias.shape) + bias


def attended_mean(generator, x: Tensor) -> Tensor:
    if not generator.attention:
        return sum(x) / len(x)
    outputs, width = [], x.size(1)
    for token in x:
        scores = torch.stack([generator.query(token) @ generator.key(other) for other in x]) / width**0.5
        outputs.append(sum(share * generator.value(other) for share, other in zip(scores.softmax(0), x)))
    return sum(outputs) / len(x)


def pooled(x: Tensor, bins: int, kind: str) -> list[Tensor]:
    """torch's own, which takes one example."""
    pool = F.adaptive_max_pool1d if kind == "mppg" else F.adaptive_avg_pool1d
    return list(pool(x.t()[None], bins)[0].t())


def state_rows(method, args, number: int, x: Tensor) -> Tensor:
    """LPT's and ID-SPAM's rows for their ``number``-th place from T x d real tokens."""
    generator = method.generators[number % len(method.generators)]
    bias = None if method.bias is None else method.bias[number % len(method.bias)]
    kind = getattr(args, "lpt_generator", None)
    if kind in ("mppg", "appg"):
        parts = method.rows // args.prompt_length
        tokens = torch.stack([weight(generator.down, token) for token in x])
        made = [generator.up(F.relu(each)) for each in pooled(tokens, args.prompt_length, kind)]
        halves = [[each.view(parts, -1)[part] + (0 if bias is None else bias[part]) for each in made]
                  for part in range(parts)]  # fmt: skip
        return torch.stack([row for half in halves for row in half])
    read = attended_mean(generator, x) if kind is None else x[0]
    rows = generator.up(F.relu(weight(generator.down, read))).view(method.rows, -1)
    rows = rows if bias is None else rows + bias
    return F.relu(rows) if getattr(args, "id_spam_output", "") == "relu" else rows


def smop_rows(method, number: int, words: Tensor) -> Tensor:
    shares = (method.router @ (sum(words) / len(words))).softmax(0)
    prompts = method.table[number].chunk(method.prompts)
    best = sorted(range(method.prompts), key=lambda i: -shares[i])[: method.chosen]
    return sum(shares[i] * prompts[i] for i in best)


def attempt_rows(method, number: int, words: Tensor) -> Tensor:
    """The released code's lines for one example, whose prompts may stand at several places."""
    prompts = [*method.sources, method.table]
    x = torch.stack([max(column) for column in words.t()])
    hidden = weight(method.down, x)
    x = method.layer_norm(weight(method.up, hidden * torch.sigmoid(hidden)))
    scores = [torch.stack([max(column) for column in p.flatten(0, 1).t()]) @ x / method.temperature for p in prompts]
    shares = torch.stack(scores).softmax(0)
    return method.table[number] + sum(share * prompt[number] for share, prompt in zip(shares, prompts))


def ept_rows(method, p: Tensor) -> Tensor:
    """What becomes of one row p of P_s."""
    network = method.reparameterization
    new = p * (2 if network.fusion == "printed" else 1)
    if network.fusion == "lowrank":
        added = list(method.words.a @ method.words.b)
        scores = torch.stack([p @ other for other in added]) / p.numel() ** 0.5
        new = new + sum(share * other for share, other in zip(scores.softmax(0), added))
    experts = network.experts
    if experts is None:
        return new
    for i, gate in enumerate(weight(experts.gate, p).softmax(0)):
        hidden = F.relu(p @ experts.down[i] + experts.down_bias[i, 0])
        new = new + gate * (hidden @ experts.up[i] + experts.up_bias[i, 0])
    return new


def network_rows(network, args) -> list[Tensor]:
    """What a reparameterization makes for each of the t rows, all places and halves in a line."""
    kind = str(args.prompt_reparameterization)
    if kind == "low-rank":
        return [sum(a * b for a, b in zip(row, network.b)) for row in network.a]
    below = list(network.embedding)
    if kind == "lstm":
        below = list(network.lstm(network.embedding[None])[0][0])
    squash = torch.tanh if kind == "prefix-mlp" else torch.relu
    return [weight(network.mlp[2], squash(weight(network.mlp[0], row))) for row in below]


def task_rows(method, args, number: int) -> Tensor:
    """The same rows for every input."""
    network = getattr(method, "reparameterization", None)
    if network is None:
        return method.table[number]
    if hasattr(network, "shared"):
        return network.shared[number] * torch.outer(network.u[number, :, 0], network.v[number, 0])
    if hasattr(network, "fusion"):
        return torch.stack([ept_rows(method, p) for p in network.rows[number]])
    made = [row.chunk(len(method.places))[number].chunk(method.rows // args.prompt_length)
            for row in network_rows(network, args)]  # fmt: skip
    return torch.stack([halves[i] for i in range(len(made[0])) for halves in made])


def added_to_words(method, length: int) -> dict[int, Tensor]:
    """Token of the text -> what is added to its word embedding."""
    pair = getattr(method, "words", None)
    if pair is None:
        return {}
    factor = 8 / pair.a.size(1) ** 0.5 if type(method).__name__ == "DePT" else 1
    return {j: factor * (pair.a[j] @ pair.b) for j in range(min(length, len(pair.a)))}


def plain_features(model, ids: Tensor, vectors: Tensor | None = None, prompt=None, beside=lambda layer: {}) -> Tensor:
    """T x d last states of one example, those of prompt rows in the input among them; late rows are left out.

    ``vectors``: the example's word vector, where the prompt is made from that; ``prompt``: the method that makes it,
    where others are joined with it, which are ``beside`` a layer: ``adapters`` and ``additions`` of ``plain_layer``.
    """
    stack, method, args = model.encoder.sentence_encoder, model.method if prompt is None else prompt, model.args
    words = torch.stack([stack.embed_tokens.weight[i] for i in ids])
    last = plain_embedding(stack, ids)
    for layer in stack.layers:
        last = plain_layer(layer, last)
    of_the_text = words[ids >= FIRST_WORD]
    sentence = {"mean-pooled": sum(last) / len(last), "token-mean": sum(of_the_text) / len(of_the_text)}
    embedded = None

    def rows(place: int, below: Tensor) -> Tensor:
        number = method.places.index(place)
        if hasattr(method, "router"):
            return smop_rows(method, number, words)
        if hasattr(method, "sources"):
            return attempt_rows(method, number, words)
        if hasattr(method, "table"):
            return task_rows(method, args, number)
        if hasattr(method, "from_previous_layer"):
            given = vectors if vectors is not None else sentence.get(str(args.representation), last[0])
            return idpg_rows(method, number, below[0] if place and method.from_previous_layer else given)
        kind = str(args.generator_input)
        read = {"states": below, "words": words, "embeddings": embedded, "last": last}[kind]
        return state_rows(method, args, number, read)

    wide = torch.cat([ids[:1], torch.full((method.prompt_length,), 3), ids[1:]])
    added = {j + method.prompt_length * (j > 0): row for j, row in added_to_words(method, len(ids)).items()}
    x = plain_embedding(stack, wide, rows(0, words) if method.in_input else None, 1, words=added)
    embedded, length, count = x, len(wide), args.prompt_length
    for i, layer in enumerate(stack.layers):
        prefix = None
        if i in method.places and method.insertion == "late":
            x = torch.cat([x, rows(i, x)])
        elif i in method.places and not method.in_input:
            keys, values = rows(i, x).split(count)
            if method.insertion == "key-value-input":
                keys, values = layer.self_attn.k_proj(keys), layer.self_attn.v_proj(values)
            prefix = keys, values
        x = plain_layer(layer, x, prefix=prefix, **beside(i))
        if method.in_input and i + 1 in method.places:
            new, at = rows(i + 1, x), slice(1, 1 + count)
            new = new if method.insertion == "replace" else new + x[at]
            x = torch.cat([x[:1], new, x[1 + count :]])
    return x[:length]
