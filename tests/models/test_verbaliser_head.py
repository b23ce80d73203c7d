"""Classes predicted by the LM head: fairseq's own at <mask>, whatever is injected, and nothing of it is trained."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from fairseq.criterions.sentence_prediction import SentencePredictionCriterion

from fairseq_idpg.backbone.weights import LM_HEAD, STACK, Backbone
from fairseq_idpg.criterions.sentence_prediction_idpg import SentencePredictionIDPGCriterion, with_all_words
from fairseq_idpg.errors import InputError
from fairseq_idpg.models.heads import OTHER_WORDS
from fairseq_idpg.saving.backbone_file import weights_digest
from tests.criterions.test_extra_loss import criterion_of
from tests.helpers import enlarge, pair_batch, prompted, stock_twin, tiny_model

NAME = "sentence_classification_head"
WORDS = [17, 9]
MASK_INDEX = torch.tensor([3, 1, 5])
METHODS = dict.fromkeys(("p-tuning-v2-kv", "lpt-npg", "lora", "prompt-tuning+adapter", "lopa", "ipl", "pt-moe"), {})
METHODS |= {"m-idpg-phm": {"phm_n": 4}, "dept": {"words_length": 8}}


def made(method="prompt-tuning", loss="vocabulary", **options):
    model = tiny_model(method=method, predict_with="mlm", verbaliser_loss=loss, **options)
    enlarge(model.encoder.lm_head.layer_norm)
    with torch.no_grad():
        model.encoder.lm_head.bias.normal_()
    model.predict_words(NAME, WORDS)
    return model


def inputs(model, position=0):
    """A batch whose masks stand at MASK_INDEX of the text, or behind the prompt."""
    tokens = pair_batch()
    if not model.prompt_length:
        return {"src_tokens": tokens, "mask_index": MASK_INDEX}
    extra = vars(prompted(tokens, position, model.prompt_length))
    moved = MASK_INDEX + model.prompt_length * (extra["prompt_offset"] <= MASK_INDEX)
    return {"src_tokens": tokens, "mask_index": moved, **extra}


def predicted(model, **given):
    return model(**given, features_only=True, classification_head_name=NAME)


def test_without_a_method_logits_are_fairseqs_own():
    model = made("head-only")
    twin = stock_twin(model)
    masked = torch.zeros_like(pair_batch(), dtype=torch.bool)
    masked[torch.arange(3), MASK_INDEX] = True
    every_word, _ = twin(pair_batch(), masked_tokens=masked)
    logits, extra = predicted(model, **inputs(model))
    assert every_word.shape == (3, 55) and torch.equal(logits, every_word[:, WORDS])
    left = every_word.logsumexp(1) - every_word[:, WORDS].logsumexp(1)
    assert torch.allclose(extra[OTHER_WORDS], left) and (left > 0).all()
    assert OTHER_WORDS not in predicted(made("head-only", loss="verbalisers"), **inputs(model))[1]


@pytest.mark.parametrize("method", ["head-only", "prompt-tuning"])
def test_a_batch_without_the_place_of_the_mask_has_no_logits(method):
    model = made(method)
    with pytest.raises(AssertionError):
        predicted(model, **{**inputs(model), "mask_index": None})


@pytest.mark.parametrize("position", [0, 4])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_trained_through_it(method, position):
    model = made(method, **METHODS[method])
    enlarge(model.method)
    given = inputs(model, position)
    logits, _ = predicted(model, **given)
    features, _ = model(**given, features_only=True)
    states = torch.stack([row[at] for row, at in zip(features, given["mask_index"])])
    assert torch.allclose(logits, stock_twin(model).encoder.lm_head(states)[:, WORDS], atol=1e-5)
    F.cross_entropy(logits, torch.tensor([0, 1, 1])).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.method.parameters())
    assert all(p.grad is None and not p.requires_grad for p in model.encoder.parameters())
    assert model.parameter_counts()["head"] == 0
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"encoder", "method"}


@pytest.mark.parametrize("weights", [None, torch.tensor([1.0, 3.0])])
def test_the_loss_over_the_vocabulary(weights):
    """As in LPT's code: cross entropy of all words, times the weights of --class-weights; only classes are counted."""
    model, targets = made(dropout=0, attention_dropout=0).train(weights is not None), torch.tensor([0, 1, 1])
    criterion = criterion_of(SentencePredictionCriterion if weights is None else SentencePredictionIDPGCriterion)
    criterion.class_weights, criterion.weights = {"b": 3.0}, weights
    sample = {"net_input": inputs(model), "target": targets[:, None], "ntokens": 27}
    loss, size, log = with_all_words(criterion, model, sample)
    loss.backward()
    found = model.method.table.grad.clone()
    model.zero_grad()
    features, _ = model(**inputs(model), features_only=True)
    every_word = model.encoder.lm_head(features[torch.arange(3), sample["net_input"]["mask_index"]])
    each = F.cross_entropy(every_word, torch.tensor(WORDS)[targets], reduction="none")
    expected = (each if weights is None else each * weights[targets]).sum()
    expected.backward()
    assert torch.allclose(loss, expected, rtol=1e-6) and torch.allclose(found, model.method.table.grad, atol=1e-6)
    assert size == 3 and log["loss"] == loss.data and loss > criterion_of(SentencePredictionCriterion)(model, sample)[0]
    assert log["ncorrect"] == (every_word[:, WORDS].argmax(1) == targets).sum()


def backbone(change=lambda weights: None):
    weights = {f"encoder.{name}": value.clone() for name, value in made().encoder.state_dict().items()}
    change(weights)
    return Backbone("FILE", {}, weights, partial(weights_digest, weights))


def test_the_backbone_must_have_an_lm_head():
    """Over the encoder's own word embeddings, which may stand there a second time or not."""
    made().load_backbone(backbone())
    made().load_backbone(backbone(lambda weights: weights.pop(f"{LM_HEAD}weight")))
    of_its_own = {f"{LM_HEAD}weight": backbone().weights[f"{LM_HEAD}weight"] + 1}
    for change in (lambda weights: weights.pop(f"{LM_HEAD}bias"), lambda weights: weights.update(of_its_own)):
        with pytest.raises(InputError, match="^--predict-with mlm: .* FILE "):
            made().load_backbone(backbone(change))
        other = tiny_model(method="prompt-tuning")
        other.load_backbone(backbone(change))
        words = backbone().weights[STACK + "embed_tokens.weight"]
        assert torch.equal(other.encoder.sentence_encoder.embed_tokens.weight, words)


def test_the_fingerprint_is_of_the_lm_head_too():
    def another(weights):
        weights[f"{LM_HEAD}bias"] += 1

    digests = []
    for options in ({"predict_with": "mlm", "verbaliser_loss": "vocabulary"}, {}):
        model = tiny_model(method="prompt-tuning", **options)
        for change in (lambda weights: None, another):
            model.load_backbone(backbone(change))
            digests.append(model.backbone_digest)
    assert digests[0] != digests[1] and digests[2] == digests[3] and digests[2] not in digests[:2]
