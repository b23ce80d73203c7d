"""Scores against their definitions, and the answers that they are of: classes by name, whatever their order."""

from argparse import Namespace

import numpy as np
import pytest

from fairseq_idpg.inference.folder import SplitPredictions
from preprocess.errors import InputError
from preprocess.tasks import TASKS
from run_scripts.run import perform
from run_scripts.run.metrics import score
from run_scripts.run.perform import judged, numbered


def test_scores_by_their_definitions():
    predictions, targets = np.array([1, 1, 0, 0, 1]), np.array([1, 0, 0, 1, 0])
    assert score("acc_and_f1", predictions, np.array([1, 0, 0, 0, 1]))["f1"] == pytest.approx(80)
    assert score("accuracy", predictions, targets) == pytest.approx({"accuracy": 40})
    assert score("mcc", predictions, targets)["mcc"] == pytest.approx(100 * np.corrcoef(predictions, targets)[0, 1])
    predictions, targets = np.array([0.1, 0.5, 0.4, 0.9]), np.array([0.0, 0.2, 0.6, 1.0])
    found = score("pearson_and_spearman", predictions, targets)
    assert found["pearson"] == pytest.approx(100 * np.corrcoef(predictions, targets)[0, 1])
    assert found["spearman"] == pytest.approx(80)
    assert found["pearson_and_spearman"] == pytest.approx((found["pearson"] + 80) / 2)
    for constant in ((np.ones(4), targets), (predictions, np.ones(4))):
        assert set(score("pearson_and_spearman", *constant).values()) == {0.0}


@pytest.mark.parametrize("names", [["0", "1"], ["1", "0"]])
def test_f1_is_of_the_label_1_in_any_order(names):
    said, gold = ([names.index(name) for name in text] for text in ("11010", "10011"))
    answers, targets = numbered(SplitPredictions(np.eye(2)[said], np.array(gold), names))
    assert answers.tolist() == [1, 1, 0, 1, 0]
    assert score("acc_and_f1", answers, targets)["f1"] == pytest.approx(100 * 2 / 3)


def test_a_split_without_labels_is_named(monkeypatch):
    """Labels may be taken away after the sweep has looked; classes that are numbers made targets of nothing."""
    found = SplitPredictions(np.eye(2), None, ["0", "1"])
    assert numbered(found)[1] is None
    monkeypatch.setattr(perform, "predict_split", lambda model, task, split: found)
    folder = Namespace(path="here", questions=lambda split: None)
    with pytest.raises(InputError, match="here has no labels of valid"):
        judged(TASKS["RTE"], None, None, folder, "valid", "dev")
