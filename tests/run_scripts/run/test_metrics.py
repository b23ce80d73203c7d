"""Scores against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_scripts.run.metrics import METRICS, score

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
    from preprocess.tasks import TASKS

    assert {task.metric for task in TASKS.values()} <= set(METRICS)
