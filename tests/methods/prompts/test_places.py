"""Every generator at every place that it can have, against a pass written out with loops, one example at a time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.registry import PRESETS
from tests.helpers import PAD, enlarge, pair_batch, prompted, single_batch, tiny_model
from tests.plain import plain_embedding, plain_layer, plain_prompt

LENGTH = 3
GENERATORS = {
    "table": {"method": "lpt-naive"},
    "idpg, M(x)": {"method": "s-idpg-dnn"},
    "idpg, <s> below": {"method": "m-idpg-dnn"},
    "npg": {"method": "lpt-npg"},
    "npg, own biases": {"method": "lpt-npg", "generator_sharing": "M"},
    "mppg": {"method": "lpt-mppg"},
    "appg, one each": {"method": "lpt-appg", "generator_sharing": "L"},
    "appg of words": {"method": "lpt-appg", "generator_input": "words"},
    "id-spam": {"method": "id-spam"},
    "id-spam, the text": {"method": "id-spam", "generator_bias": "true", "id_spam_output": "linear"},
    "id-spam of states": {"method": "id-spam", "generator_input": "states", "generator_sharing": "L"},
    "npg of M(x)": {"method": "lpt-npg", "generator_input": "last"},
    "mppg of last states": {"method": "lpt-mppg", "generator_input": "last"},
    "id-spam of last states": {"method": "id-spam", "generator_input": "last"},
    "id-spam, mean": {"method": "id-spam", "id_spam_pooling": "mean"},
    "dpt": {"method": "dpt", "reparameterization_hidden_size": 2},
    "dept": {"method": "dept", "words_rank": 2, "words_length": 4},
    "ept": {"method": "ept", "words_rank": 2, "words_length": 4, "ept_hidden_size": 3},
    "ept as printed": {"method": "ept", "words_rank": 2, "ept_fusion": "printed", "ept_experts": 2},
    "ept without words": {"method": "ept", "ept_decomposition": "false", "ept_fusion": "none"},
    "smop": {"method": "smop"},
    "smop, top 2": {"method": "smop", "smop_chosen": 2, "smop_prompts": 3, "smop_noise": "none"},
}
EMBEDDED = {
    "mppg of embeddings": {"method": "lpt-mppg", "generator_input": "embeddings"},
    "id-spam of embeddings": {"method": "id-spam", "generator_input": "embeddings"},
}
BETWEEN = {
    "late 0": ("late", "0"),
    "late 2": ("late", "2"),
    "late, all": ("late", "all"),
    "key-value": ("key-value", "all"),
    "key-value-input": ("key-value-input", "1,2"),
}
INPUT = {"input": ("add", "first"), "add": ("add", "all"), "replace": ("replace", "0,2")}
LEGAL = [(*each, place) for each in GENERATORS.items() for place in (*BETWEEN, *INPUT)]
LEGAL += [(*each, place) for each in EMBEDDED.items() for place in BETWEEN]
PLACES = {**BETWEEN, **INPUT}


@pytest.fixture(autouse=True)
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def built(options, place):
    insertion, layers = PLACES[place]
    size = {"generator_hidden_size": 8} if "generator_hidden_size" in PRESETS[options["method"]].options else {}
    model = tiny_model(**size, **options, prompt_length=LENGTH, prompt_insertion=insertion, prompt_layers=layers)
    enlarge(model.encoder)
    enlarge(model.method)
    for layer in model.encoder.sentence_encoder.layers:
        layer.activation_fn = nn.functional.gelu  # fairseq's own rounds to float32
    if getattr(model.method, "reparameterization", None) is not None:
        model.method.train()  # in evaluation it is folded
    return model


def pooled(x: Tensor, bins: int, kind: str) -> list[Tensor]:
    """torch's own, which takes one example."""
    pool = F.adaptive_max_pool1d if kind == "mppg" else F.adaptive_avg_pool1d
    return list(pool(x.t()[None], bins)[0].t())


def attended_mean(generator, x: Tensor) -> Tensor:
    if not generator.attention:
        return sum(x) / len(x)
    outputs = []
    for token in x:
        scores = torch.stack([generator.query(token) @ generator.key(other) for other in x]) / x.size(1) ** 0.5
        outputs.append(sum(weight * generator.value(other) for weight, other in zip(scores.softmax(0), x)))
    return sum(outputs) / len(x)


def plain_rows(model, number: int, x: Tensor) -> Tensor:
    """The rows that a generator of states makes for its ``number``-th place from T x d real tokens."""
    method, args = model.method, model.args
    generator = method.generators[number % len(method.generators)]
    bias = None if method.bias is None else method.bias[number % len(method.bias)]
    if args.method in ("lpt-mppg", "lpt-appg"):
        parts = method.rows // LENGTH
        tokens = torch.stack([generator.down(token) for token in x])
        made = [generator.up(F.relu(each)) for each in pooled(tokens, LENGTH, args.method[4:])]
        rows = [each.view(parts, -1)[part] + bias[part] for part in range(parts) for each in made]
        return torch.stack(rows)
    one = x[0] if args.method == "lpt-npg" else attended_mean(generator, x)
    rows = generator.up(F.relu(generator.down(one))).view(method.rows, -1)
    rows = rows if bias is None else rows + bias
    return F.relu(rows) if getattr(args, "id_spam_output", "") == "relu" and args.method == "id-spam" else rows


def plain_table(method) -> Tensor:
    """places x rows x d of a task's prompt; EPT's row by row."""
    network = getattr(method, "reparameterization", None)
    if not hasattr(network, "fusion"):
        return method.table if network is None else method.made_rows(network)
    places = []
    for rows in network.rows:
        made = []
        for p in rows:
            new = p * (2 if network.fusion == "printed" else 1)
            if network.fusion == "lowrank":
                added = list(method.words.a @ method.words.b)
                scores = torch.stack([p @ other for other in added]) / p.numel() ** 0.5
                new = new + sum(weight * other for weight, other in zip(scores.softmax(0), added))
            experts, gates = network.experts, network.experts.gate(p).softmax(0)
            for i, gate in enumerate(gates):
                hidden = F.relu(p @ experts.down[i] + experts.down_bias[i, 0])
                new = new + gate * (hidden @ experts.up[i] + experts.up_bias[i, 0])
            made.append(new)
        places.append(torch.stack(made))
    return torch.stack(places)


def plain_mixture(method, number: int, words: Tensor) -> Tensor:
    """SMoP's rows of a place: t x d."""
    weights = (method.router @ (sum(words) / len(words))).softmax(0)
    prompts = method.table[number].chunk(method.prompts)
    best = sorted(range(method.prompts), key=lambda i: -weights[i])[: method.chosen]
    return sum(weights[i] * prompts[i] for i in best)


def plain_additions(method, text: Tensor) -> dict[int, Tensor]:
    """Token of the text -> what is added to its word embedding."""
    pair = getattr(method, "words", None)
    if pair is None:
        return {}
    factor = 8 / pair.a.size(1) ** 0.5 if type(method).__name__ == "DePT" else 1
    return {j: factor * (pair.a[j] @ pair.b) for j in range(min(len(text), len(pair.a)))}


def plain_features(model, ids: Tensor) -> Tensor:
    """T x d last states of one example, those of prompt rows in the input among them; late rows are left out."""
    stack, method = model.encoder.sentence_encoder, model.method
    words = torch.stack([stack.embed_tokens.weight[i] for i in ids])
    last = plain_embedding(stack, ids)
    for layer in stack.layers:
        last = plain_layer(layer, last)
    embedded = None

    def rows(place: int, below: Tensor) -> Tensor:
        number = method.places.index(place)
        if hasattr(method, "router"):
            return plain_mixture(method, number, words)
        if hasattr(method, "table"):
            return plain_table(method)[number]
        if hasattr(method, "from_previous_layer"):
            read = below[0] if place and method.from_previous_layer else last[0]
            return torch.from_numpy(plain_prompt(method, number, read.detach().numpy()))
        kind = str(model.args.generator_input)
        return plain_rows(model, number, {"states": below, "words": words, "embeddings": embedded, "last": last}[kind])

    wide = torch.cat([ids[:1], torch.full((method.prompt_length,), 3), ids[1:]])
    added = {j + method.prompt_length * (j > 0): row for j, row in plain_additions(method, ids).items()}
    x = plain_embedding(stack, wide, rows(0, words) if method.in_input else None, 1, words=added)
    embedded, length = x, len(wide)
    for i, layer in enumerate(stack.layers):
        prefix = None
        if i in method.places and method.insertion == "late":
            x = torch.cat([x, rows(i, x)])
        elif i in method.places and not method.in_input:
            keys, values = rows(i, x).split(LENGTH)
            if method.insertion == "key-value-input":
                keys, values = layer.self_attn.k_proj(keys), layer.self_attn.v_proj(values)
            prefix = keys, values
        x = plain_layer(layer, x, prefix=prefix)
        if method.in_input and i + 1 in method.places:
            new, at = rows(i + 1, x), slice(1, 1 + LENGTH)
            new = new if method.insertion == "replace" else new + x[at]
            x = torch.cat([x[:1], new, x[1 + LENGTH :]])
    return x[:length]


@pytest.mark.parametrize(
    ("generator", "options", "place"), LEGAL, ids=lambda value: value if str(value) == value else ""
)
def test_pass_and_gradients(generator, options, place):
    model = built(options, place)
    for tokens in (pair_batch(), single_batch()[:1]):  # with pads and without
        extra = vars(prompted(tokens, 0, model.prompt_length)) if model.prompt_length else {}
        ours, _ = model(tokens, **extra, features_only=True)
        assert ours.shape == (len(tokens), tokens.size(1) + model.prompt_length, 32)
        plain = [plain_features(model, row[row != PAD]) for row in tokens]
        for mine, theirs in zip(ours, plain):
            torch.testing.assert_close(mine[: len(theirs)], theirs, atol=1e-9, rtol=0)
    trained = {name: p for name, p in model.method.named_parameters() if p.requires_grad}
    draw = torch.randn(32)
    mine = torch.autograd.grad((ours[:, 0] @ draw).sum(), list(trained.values()))
    if "idpg" not in generator:  # whose plain pass is in numpy
        theirs = torch.autograd.grad(plain[0][0] @ draw, list(trained.values()))
        for one, other in zip(mine, theirs):
            torch.testing.assert_close(one, other, atol=1e-9 * max(1, float(other.abs().max())), rtol=0)
    assert all(gradient.any() for gradient in mine), [name for name, g in zip(trained, mine) if not g.any()]


@pytest.mark.parametrize("place", INPUT)
@pytest.mark.parametrize("options", EMBEDDED.values(), ids=EMBEDDED)
def test_the_inputs_prompt_comes_before_the_embeddings(options, place):
    with pytest.raises(InputError, match="--generator-input embeddings: prompts of the input are made before them"):
        built(options, place)


@pytest.mark.parametrize("insertion", ["add", "replace"])
def test_rows_that_nothing_makes_room_for_are_refused(insertion):
    message = "--prompt-layers middle: add 0, the input, which makes the rows .* or give --prompt-insertion late"
    with pytest.raises(InputError, match=message):
        tiny_model(method="lpt-npg", prompt_insertion=insertion)


@pytest.mark.parametrize(("layers", "place"), [(1, 0), (2, 1), (3, 2), (6, 4), (12, 7), (24, 13)])
def test_the_middle_is_the_papers_best_layer(layers, place):
    """LPT's k = 13 of 24; in a stack of two there is nothing above the second layer."""
    for method in ("lpt-naive", "lpt-npg", "id-spam"):
        assert tiny_model(method=method, encoder_layers=layers).method.places == (place,)
