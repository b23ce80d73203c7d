"""A method's own term of the loss: in the gradient, in the log beside the loss, refused where it would be left out."""

import pytest
import torch
from fairseq.criterions.sentence_prediction import SentencePredictionCriterion

from fairseq_idpg.criterions.sentence_prediction_idpg import SentencePredictionIDPGCriterion
from tests.folders import train
from tests.helpers import pair_batch, prompted, tiny_model

OURS = ["--criterion", "sentence_prediction_idpg"]
BALANCE = ["--method", "smop", "--smop-balance", 0.5, "--prompt-init", "normal"]


def criterion_of(kind):
    criterion = object.__new__(kind)
    torch.nn.Module.__init__(criterion)
    criterion.classification_head_name = "sentence_classification_head"
    criterion.regression_target = criterion.keep_pred_and_targ = False
    return criterion


def gradients(kind, **options):
    """(loss, what is logged, gradients of the method)."""
    torch.manual_seed(3)
    model = tiny_model(dropout=0.0, attention_dropout=0.0, **options).train()
    tokens = pair_batch()
    extra = vars(prompted(tokens, 0, model.prompt_length)) if model.prompt_length else {}
    sample = {"net_input": {"src_tokens": tokens, **extra}, "target": torch.tensor([0, 1, 1]), "ntokens": 9}
    loss, _, log = criterion_of(kind)(model, sample)
    loss.backward()
    return loss.detach(), log, {name: p.grad for name, p in model.method.named_parameters()}


@pytest.mark.parametrize("method", ["smop", "smop+adapter"])
def test_the_gradient_is_that_of_both(method):
    options = {"method": method, "smop_noise": "none"}
    alone, _, without = gradients(SentencePredictionCriterion, **options)
    both, log, with_it = gradients(SentencePredictionIDPGCriterion, **options, smop_balance=0.5)
    torch.testing.assert_close(both, alone + log["method_loss"])
    assert log["loss"] == alone and 0.5 * 3 <= log["method_loss"] <= 0.5 * 3 * 4
    differing = {name for name, gradient in with_it.items() if not torch.allclose(gradient, without[name], atol=1e-7)}
    assert {name.rpartition(".")[2] for name in differing} == {"router"}


def test_command_line(pairs, backbone, tmp_path):
    options = ["--backbone", backbone, *BALANCE, "--max-epoch", 2]
    line = train(pairs, tmp_path, *options, without="--phm-n", succeed=False).last_line
    assert "--smop-balance 0.5" in line and "--criterion sentence_prediction_idpg" in line
    trained = train(pairs, tmp_path, *options, *OURS, without="--phm-n")
    assert all(0.5 <= value <= 2 for value in trained.log("train_method_loss")) and trained.log("train_method_loss")
    assert not trained.log("valid_method_loss")
