"""A score that does not exist is 0, never NaN, which would decide which checkpoint is the best."""

import pytest
import torch
from fairseq.criterions.sentence_prediction import SentencePredictionCriterion
from fairseq.logging import metrics

from fairseq_idpg.criterions.sentence_prediction_idpg import SentencePredictionIDPGCriterion
from fairseq_idpg.tasks.task import SentencePredictionIDPGTask
from tests.helpers import dictionary_of

FOUR, NAN = [1.0, 2.0, 3.0, 4.0], float("nan")
PEARSON, SPEARMAN, BOTH = "pearson", "spearman", "pearson_and_spearman"


@pytest.mark.filterwarnings("ignore:A single label")
@pytest.mark.parametrize("criterion", [SentencePredictionCriterion, SentencePredictionIDPGCriterion])
@pytest.mark.parametrize(
    ("metric", "predicted", "targets", "score"),
    [
        *((metric, [1.0, 2.0, 4.0, 3.0], FOUR, 80.0) for metric in (PEARSON, SPEARMAN, BOTH)),
        # constant, one example, NaN, constant targets
        *((metric, [2.5] * 4, FOUR, 0.0) for metric in (PEARSON, SPEARMAN, BOTH)),
        *((BOTH, [2.0], [1.0], 0.0), (BOTH, [3.0, NAN, 1.0, 2.0], FOUR, 0.0), (BOTH, FOUR, [1.0] * 4, 0.0)),
        # no prediction or no target of class 1
        *(("f1", [1, 1], [0, 0], 0.0), ("f1", [0, 0], [0, 1], 0.0), ("f1", [0], [0], 0.0)),
        *(("mcc", [1, 1], [0, 0], 0.0), ("mcc", [0, 0], [0, 1], 0.0), ("mcc", [0], [0], 0.0)),
    ],
)
def test_scores_of_a_validation(criterion, metric, predicted, targets, score):
    report = {"f1": "report_acc_and_f1", "mcc": "report_mcc"}.get(metric, "report_pearson_and_spearman")
    examples = {"ntokens": 9, "nsentences": len(predicted), "sample_size": len(predicted)}
    log = {"loss": 1.0, **examples, "pred": predicted, "targ": targets, report: True}
    with metrics.aggregate(new_root=True) as found:
        object.__new__(SentencePredictionIDPGTask).reduce_metrics([log], object.__new__(criterion))
    assert found.get_smoothed_values()[metric] == score


def test_predictions_are_told_by_the_names_of_their_classes():
    """F1 is that of the class 1, the first where it is the more frequent one, as in MRPC."""
    criterion = object.__new__(SentencePredictionIDPGCriterion)
    criterion.label_dict, criterion.regression_target = dictionary_of("10"), False
    criterion.fairseqs_reports = ["report_acc_and_f1"]
    logits, targets = torch.tensor([[2.0, 1.0], [2.0, 1.0], [1.0, 2.0]]), torch.tensor([[0], [1], [0]])
    found = criterion.logged_columns(logits, {"target": targets})
    assert (found["pred"], found["targ"]) == ([1, 1, 0], [1, 0, 1])
