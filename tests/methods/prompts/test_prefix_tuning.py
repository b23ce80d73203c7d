"""Prefix tuning, its ablations, and MAM, against passes written out plainly."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.backbone.injection import States
from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.registry import PRESETS
from tests.helpers import PAD, enlarge, logits, pair_batch, prompted, tiny_model
from tests.methods.prompts.test_counts import count
from tests.plain import plain_embedding, plain_layer, plain_parallel, relu

LENGTH, WIDTH, LAYERS = 3, 32, 3
SMALL = {"prompt_length": LENGTH, "reparameterization_hidden_size": 7}


def built(method, **options):
    """A model with values that matter, its prefix folded anew."""
    model = tiny_model(method=method, **{**SMALL, **options})
    enlarge(model.method)
    return model.eval()


def plain_rows(network, layers=LAYERS, kinds=2):
    """(K_l, V_l) of each layer, t x d each: W2 tanh(W1 E + b1) + b2, row by row."""
    first, last = network.mlp[0], network.mlp[2]
    out = [last.weight @ (first.weight @ row + first.bias).tanh() + last.bias for row in network.embedding]
    return torch.stack(out).view(LENGTH, layers, kinds, WIDTH).permute(1, 2, 0, 3)


def plain_features(model, ids, prefix, adapters=None, additions=None):
    x = plain_embedding(model.encoder.sentence_encoder, ids)
    for i, layer in enumerate(model.encoder.sentence_encoder.layers):
        changes = plain_parallel(adapters, i, relu) if adapters is not None else (None, None)
        x = plain_layer(layer, x, prefix=prefix[i], adapters=changes, additions=(additions or {}).get(i))
    return x


def check(model, *more):
    features, _ = model(pair_batch(), features_only=True)
    assert features.shape[1] == pair_batch().shape[1]
    for example, row in enumerate(pair_batch()):
        ids = row[row != PAD]
        expected = plain_features(model, ids, *more)
        torch.testing.assert_close(features[example, : len(ids)], expected, atol=2e-5, rtol=2e-5)


@torch.no_grad()
def test_prefix_tuning():
    model = built("prefix-tuning")
    check(model, plain_rows(model.method.reparameterization))


@torch.no_grad()
def test_mam():
    model = built("mam")
    prefix, adapters = model.method.parts
    assert (adapters.scale, adapters.sublayers, adapters.hidden) == (4.0, ("FFN",), 16)
    check(model, plain_rows(prefix.reparameterization), adapters)


@torch.no_grad()
def test_mam_is_its_parts_by_name():
    mam, parts = built("mam"), built("prefix-tuning+adapter-scaled-parallel")
    parts.load_state_dict(mam.state_dict())
    assert torch.equal(logits(mam, pair_batch()), logits(parts.eval(), pair_batch()))
    assert PRESETS["mam"].options == {
        **PRESETS["prefix-tuning"].options,
        **PRESETS["adapter-scaled-parallel"].options,
    }


@torch.no_grad()
def test_prefix_and_lora_beside_the_feed_forward():
    model = built("prefix-tuning+lora", lora_projections="fc1,fc2", lora_rank=2, lora_alpha=3.0)
    prefix, lora = model.method.parts
    additions = {
        i: {name: lambda x, a=lora.a[name][i], b=lora.b[name][i]: 1.5 * x @ a.T @ b.T for name in ("fc1", "fc2")}
        for i in range(LAYERS)
    }
    check(model, plain_rows(prefix.reparameterization), None, additions)


@torch.no_grad()
@pytest.mark.parametrize("position", [0, 2])
def test_infix_replaces_the_states_of_its_rows(position):
    """Every layer above the first reads the network's rows where the prompt stands, whatever stood there."""
    model = built("prefix-tuning", prompt_insertion="replace", prompt_layers="all")
    rows = plain_rows(model.method.reparameterization, kinds=1)[:, 0]
    given = prompted(pair_batch(), position, LENGTH)
    features, _ = model(pair_batch(), **vars(given), features_only=True)
    for example, (ids, at) in enumerate(zip(given.prompted_tokens, given.prompt_offset.tolist())):
        ids = ids[ids != PAD]
        x = plain_embedding(model.encoder.sentence_encoder, ids, rows[0], at)
        for i, layer in enumerate(model.encoder.sentence_encoder.layers):
            if i:
                x = torch.cat([x[:at], rows[i], x[at + LENGTH :]])
            x = plain_layer(layer, x)
        torch.testing.assert_close(features[example, : len(ids)], x, atol=2e-5, rtol=2e-5)


def test_embedding_only():
    method = tiny_model(method="prefix-tuning", prompt_insertion="add", prompt_layers="first", **SMALL).method
    assert (method.slots, method.prompt_length, method.table.shape) == (("input",), LENGTH, (1, LENGTH, WIDTH))
    assert method.reparameterization.mlp[2].out_features == WIDTH


def test_table_instead_of_the_network():
    model = tiny_model(method="prefix-tuning", prompt_reparameterization="none", prompt_init="standard-normal")
    model.method.set_initial_values(model.args, None)
    assert model.method.table.shape == (LAYERS, 2 * 20, WIDTH)
    assert 0.9 < model.method.table.std() < 1.1


def test_start():
    """E from N(0, 1), Linears as torch draws them."""
    network = tiny_model(method="prefix-tuning", prompt_length=60).method.reparameterization
    assert 0.9 < network.embedding.std() < 1.1
    assert network.mlp[0].weight.abs().max() <= WIDTH**-0.5
    assert network.mlp[2].weight.abs().max() <= 512**-0.5 and network.mlp[2].bias.std() > 0


@pytest.mark.parametrize("method", ["prefix-tuning", "m-idpg-phm", "p-tuning-v2-kv"])
def test_dropout_of_keys_and_values_is_drawn_for_each_example(method):
    """Numbers are dropped or made larger by 1/(1-p); none in evaluation."""
    options = {"phm_n": 4, "generator_dropout": 0.0} if "phm" in method else {}
    given = {"prompt_insertion": "key-value", "prompt_length": 64, **options}
    model = tiny_model(method=method, prefix_dropout=0.25, **given)
    enlarge(model.method)
    states = States(torch.zeros(2, 3, WIDTH))
    c = torch.ones(3, WIDTH)
    whole = torch.cat(model.eval().method.injection(c).key_value(0, states)[:2], 1).expand(3, -1, -1)
    dropped = torch.cat(model.train().method.injection(c).key_value(0, states)[:2], 1)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], whole[kept] / 0.75)
    assert 0.2 < 1 - kept.float().mean() < 0.3
    assert not torch.equal(kept[0], kept[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "prefix-tuning", "prefix_dropout": 1.0}, "--prefix-dropout 1.0 is no rate"),
        ({"method": "m-idpg-phm", "generator_dropout": 1.0}, "--generator-dropout 1.0 is no rate"),
        ({"method": "id-spam", "generator_dropout": -0.1}, "--generator-dropout -0.1 is no rate"),
        ({"method": "prompt-tuning", "prefix_dropout": 0.1}, "has no effect with --prompt-insertion add"),
        ({"method": "mam", "prompt_insertion": "late", "prefix_dropout": 0.1}, "with --prompt-insertion late"),
    ],
)
def test_refused(options, message):
    with pytest.raises(InputError, match=message):
        tiny_model(**options)


def test_counts_without_the_network_are_those_of_the_slides():
    """2 l d for each attention; in the feed-forward 2 r d of an adapter and 10 r d of LoRA, biases aside."""
    d, layers = 1024, 24
    table = {"prompt_reparameterization": "none", "prompt_length": 30}
    assert count(method="prefix-tuning", **table) == 2 * 30 * d * layers
    biases = layers * (512 + d)
    assert count(method="mam", adapter_hidden_size=512, **table) == (2 * 30 * d + 2 * 512 * d) * layers + biases
    lora = {"lora_projections": "fc1,fc2", "lora_rank": 102}
    assert count(method="lora", **lora) == 10 * 102 * d * layers
