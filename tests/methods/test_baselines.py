"""The head on M(x) against a pass written by hand, and against ``head-only``."""

import pytest
import torch

from fairseq_idpg.representations.kinds import REPRESENTATIONS
from tests.contract import Row
from tests.helpers import PAD, enlarge, logits, pair_batch, stock_twin, tiny_model

NAME = "head-on-representation"
SPECIALS = 4
WHOLE = 354_309_120  # without the LM head
CONTRACT = {
    "head-only": Row(0, start=0),
    NAME: Row(0),
    "fine-tuning": Row(0, trains=lambda name: True, of_backbone=WHOLE, start=0),
    "efl": Row(0, trains=lambda name: True, of_backbone=WHOLE, start=0),
}


def made(method: str = NAME, **options):
    model = tiny_model(method=method, **options)
    enlarge(model)
    return model


def by_hand(model, tokens, kind: str) -> torch.Tensor:
    """fairseq's own encoder, a mean, and the head's two layers."""
    states = stock_twin(model).eval()(tokens, features_only=True)[0]
    if kind == "token-mean":
        states = model.encoder.sentence_encoder.embed_tokens(tokens)
    chosen = tokens.ge(SPECIALS) if kind == "token-mean" else tokens.ne(PAD)
    means = [row[real].mean(0) for row, real in zip(states, chosen)]
    vectors = states[:, 0] if kind == "backbone" else torch.stack(means)
    head = model.classification_heads["sentence_classification_head"]
    return head.out_proj(torch.tanh(head.dense(vectors)))


@pytest.mark.parametrize("kind", ["mean-pooled", "token-mean", "backbone"])
def test_the_head_reads_it_alone(kind):
    """Without dropout of the backbone; that of the head is fairseq's --pooler-dropout, 0."""
    model, tokens = made(head_input=kind, dropout=0.5, attention_dropout=0.5), pair_batch()
    expected = by_hand(model, tokens, kind)
    for training in (False, True):
        torch.testing.assert_close(logits(model.train(training), tokens), expected)


def test_no_layer_is_run_for_a_head_that_has_its_vector():
    """What leaves the layers is still there for those who ask: features are that pass, with M(x) as its first state."""
    model, tokens, runs = made(), pair_batch(), []
    vectors = REPRESENTATIONS["mean-pooled"](model.encoder, tokens)
    for layer in model.encoder.sentence_encoder.layers:
        layer.register_forward_pre_hook(lambda *_: runs.append(1))
    name, layers = "sentence_classification_head", len(model.encoder.sentence_encoder.layers)
    found = model(tokens, representation=vectors, classification_head_name=name)[0]
    assert not runs
    torch.testing.assert_close(found, logits(model, tokens))
    assert len(runs) == layers
    features = model(tokens, representation=vectors, features_only=True)[0]
    assert len(runs) == 2 * layers and torch.equal(model.classification_heads[name](features), found)


@pytest.mark.parametrize("method", [f"bitfit+{NAME}", f"{NAME}+bitfit"])
def test_biases_that_make_the_vector_may_be_trained(method):
    """In the one pass that makes it."""
    model, runs = made(method), []
    layers = model.encoder.sentence_encoder.layers
    for layer in layers:
        layer.register_forward_pre_hook(lambda *_: runs.append(1))
    logits(model, pair_batch()).square().sum().backward()
    gradients = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert "encoder.sentence_encoder.layers.0.fc1.bias" in gradients
    assert len(runs) == len(layers)
