"""M(x): the last <s> state, without gradient and by default without dropout."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from fairseq_idpg.representations.kinds import sentence_representation
from tests.helpers import PAD, logits, pair_batch, single_batch, tiny_model


def test_is_the_last_sentence_state_without_gradient():
    model = tiny_model(method="head-only", no_freeze_backbone=True)
    expected = model.encoder(pair_batch(), features_only=True)[0][:, 0]
    out = sentence_representation(model.encoder, pair_batch())
    assert torch.equal(out, expected) and not out.requires_grad


def test_dropout_only_on_request():
    model = tiny_model(method="head-only", dropout=0.5).train()
    evaluated = sentence_representation(model.encoder, pair_batch())
    assert torch.equal(evaluated, sentence_representation(model.encoder, pair_batch()))
    noisy = sentence_representation(model.encoder, pair_batch(), dropout=True)
    assert not torch.allclose(noisy, evaluated)
    assert model.encoder.training and all(m.training for m in model.encoder.modules())


def text_of(row):
    return [token for token in row.tolist() if token != PAD]


def test_mean_pooled_is_the_mean_of_the_last_states():
    model = tiny_model(method="head-only")
    features = model.encoder(pair_batch(), features_only=True)[0]
    ours = sentence_representation(model.encoder, pair_batch(), kind="mean-pooled")
    for example, row in enumerate(pair_batch()):
        rows = [features[example, i] for i in range(len(text_of(row)))]
        assert torch.allclose(ours[example], sum(rows) / len(rows), atol=1e-6)


def test_token_mean_is_the_mean_of_the_words_embeddings():
    model = tiny_model(method="head-only")
    table, specials = model.encoder.sentence_encoder.embed_tokens.weight, model.encoder.dictionary.nspecial
    tokens = F.pad(single_batch(), (0, 1), value=PAD)  # one has a single word
    tokens = torch.cat([tokens, torch.tensor([[0, 2, *[PAD] * (tokens.size(1) - 2)]])])
    ours = sentence_representation(model.encoder, tokens, kind="token-mean")
    for example, row in enumerate(tokens[:-1]):
        words = [table[token] for token in text_of(row) if token >= specials]
        assert torch.allclose(ours[example], sum(words) / len(words), atol=1e-6)
    assert torch.equal(ours[-1], torch.zeros(table.size(1)))  # no text


@pytest.mark.parametrize("kind", ["mean-pooled", "token-mean", "previous-layer"])
def test_a_generator_reads_what_it_is_told_to(kind):
    model = tiny_model(method="m-idpg-phm", phm_n=4, representation=kind)
    seen = []
    begin_pass = model.method.begin_pass
    model.method.begin_pass = lambda representation: (seen.append(representation), begin_pass(representation))[1]
    with torch.no_grad():
        logits(model, pair_batch())
    assert torch.equal(seen[0], sentence_representation(model.encoder, pair_batch(), kind=kind))
