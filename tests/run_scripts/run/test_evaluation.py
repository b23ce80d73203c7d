"""Answers that scores are computed from: classes by name, whatever their order in the model."""

from __future__ import annotations

import numpy as np
import pytest

from fairseq_idpg.inference.folder import SplitPredictions
from run_scripts.run.evaluation import numbered
from run_scripts.run.metrics import score

ANSWERS, GOLD = ["1", "1", "0", "1", "0"], ["1", "0", "0", "1", "1"]


@pytest.mark.parametrize("names", [["0", "1"], ["1", "0"]])
def test_f1_is_of_the_label_1_in_any_order(names):
    logits = np.eye(2)[[names.index(name) for name in ANSWERS]]
    found = SplitPredictions(logits, np.array([names.index(name) for name in GOLD]), names)
    answers, targets = numbered(found)
    assert answers.tolist() == [int(name) for name in ANSWERS]
    assert score("acc_and_f1", answers, targets)["f1"] == pytest.approx(100 * 2 / 3)
