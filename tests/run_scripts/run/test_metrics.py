"""Scores against their definitions, and the answers that they are of: classes by name, whatever their order."""

from __future__ import annotations

from argparse import Namespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.inference.folder import SplitPredictions
from preprocess.errors import InputError
from preprocess.tasks import TASKS
from run_scripts.run import perform
from run_scripts.run.metrics import METRICS, score
from run_scripts.run.perform import judged, numbered

CLASSES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=30)


@given(CLASSES)
def test_accuracy_and_f1(pairs):
    predictions, targets = np.array(pairs).T
    both = sum(p == t == 1 for p, t in pairs)
    f1 = 2 * both / max(1, sum(predictions) + sum(targets))
    accuracy = np.mean([p == t for p, t in pairs])
    found = score("acc_and_f1", predictions, targets)
    assert found == pytest.approx({"accuracy": 100 * accuracy, "f1": 100 * f1, "acc_and_f1": 50 * (accuracy + f1)})
    assert score("accuracy", predictions, targets) == pytest.approx({"accuracy": 100 * accuracy})


def test_correlations():
    predictions, targets = np.array([0.1, 0.5, 0.4, 0.9]), np.array([0.0, 0.2, 0.6, 1.0])
    found = score("pearson_and_spearman", predictions, targets)
    assert found["pearson"] == pytest.approx(100 * np.corrcoef(predictions, targets)[0, 1])
    assert found["spearman"] == pytest.approx(80)
    assert found["pearson_and_spearman"] == pytest.approx((found["pearson"] + 80) / 2)
    assert set(score("pearson_and_spearman", np.ones(4), targets).values()) == {0.0}
    assert set(score("pearson_and_spearman", predictions, np.ones(4)).values()) == {0.0}


def test_matthews():
    predictions, targets = np.array([1, 1, 0, 0, 1]), np.array([1, 0, 0, 1, 1])
    assert score("mcc", predictions, targets)["mcc"] == pytest.approx(100 * np.corrcoef(predictions, targets)[0, 1])


def test_every_metric_of_the_tasks():
    assert {task.metric for task in TASKS.values()} <= set(METRICS)


ANSWERS, GOLD = ["1", "1", "0", "1", "0"], ["1", "0", "0", "1", "1"]


@pytest.mark.parametrize("names", [["0", "1"], ["1", "0"]])
def test_f1_is_of_the_label_1_in_any_order(names):
    logits = np.eye(2)[[names.index(name) for name in ANSWERS]]
    found = SplitPredictions(logits, np.array([names.index(name) for name in GOLD]), names)
    answers, targets = numbered(found)
    assert answers.tolist() == [int(name) for name in ANSWERS]
    assert score("acc_and_f1", answers, targets)["f1"] == pytest.approx(100 * 2 / 3)


def test_a_split_without_labels_is_named(monkeypatch):
    """Labels may be taken away after the sweep has looked; classes that are numbers made targets of nothing."""
    found = SplitPredictions(np.eye(2), None, ["0", "1"])
    assert numbered(found)[1] is None
    monkeypatch.setattr(perform, "predict_split", lambda model, task, split: found)
    folder = Namespace(path="here", questions=lambda split: None)
    with pytest.raises(InputError, match="here has no labels of valid"):
        judged(TASKS["RTE"], None, None, folder, "valid", "dev")
