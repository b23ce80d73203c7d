"""Answers that scores are computed from: classes by name, whatever their order in the model."""

from __future__ import annotations

from argparse import Namespace

import numpy as np
import pytest

from fairseq_idpg.inference.folder import SplitPredictions
from preprocess.errors import InputError
from preprocess.tasks import TASKS
from run_scripts.run import evaluation
from run_scripts.run.evaluation import answered, numbered
from run_scripts.run.metrics import score

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
    monkeypatch.setattr(evaluation, "predict_split", lambda model, task, split: found)
    folder = Namespace(path="here", questions=lambda split: None)
    with pytest.raises(InputError, match="here has no labels of valid: preprocess it with them"):
        answered(TASKS["RTE"], None, None, folder, "valid")
