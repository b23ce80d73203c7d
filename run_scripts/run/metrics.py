"""The metrics of the paper (Section 4.1, Table 5) and of SuperGLUE, x100."""

import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from preprocess import split_scores
from preprocess.questions import Questions
from preprocess.split_scores import Metric, Scores

MACRO_F1, ACC_AND_MACRO_F1 = "macro_f1", "acc_and_macro_f1"


def _accuracy_and_f1(predictions: np.ndarray, targets: np.ndarray, questions: Questions | None) -> Scores:
    accuracy, f1 = accuracy_score(targets, predictions), f1_score(targets, predictions, zero_division=0)
    return {"accuracy": accuracy, "f1": f1, "acc_and_f1": (accuracy + f1) / 2}


def _pearson_and_spearman(predictions: np.ndarray, targets: np.ndarray, questions: Questions | None) -> Scores:
    """Return both correlations; 0 where all predictions or all targets are equal, which have none."""
    if np.ptp(predictions) == 0 or np.ptp(targets) == 0:
        return {"pearson": 0.0, "spearman": 0.0, "pearson_and_spearman": 0.0}
    pearson, spearman = pearsonr(predictions, targets)[0], spearmanr(predictions, targets)[0]
    return {"pearson": pearson, "spearman": spearman, "pearson_and_spearman": (pearson + spearman) / 2}


METRICS: dict[str, Metric] = {
    "accuracy": lambda predictions, targets, questions: {"accuracy": accuracy_score(targets, predictions)},
    "acc_and_f1": _accuracy_and_f1,
    "pearson_and_spearman": _pearson_and_spearman,
    "mcc": lambda predictions, targets, questions: {"mcc": matthews_corrcoef(targets, predictions)},
    **split_scores.METRICS,
}


def macro_scores(predictions: np.ndarray, targets: np.ndarray) -> Scores:
    """Return the mean F1 of all classes, and the mean of it and accuracy (ID-SPAM's score of MRPC and QQP), x100."""
    found = score(ACC_AND_MACRO_F1, predictions, targets)
    return {name: found[name] for name in (MACRO_F1, ACC_AND_MACRO_F1)}


def score(metric: str, predictions: np.ndarray, targets: np.ndarray, questions: Questions | None = None) -> Scores:
    """Return the metric and its parts, x100; F1 is that of class 1.

    Metrics of questions need ``questions``, the question of each example. Where one example of each is chosen, its
    prediction is 1 and the others' 0.
    """
    return {name: 100 * float(value) for name, value in METRICS[metric](predictions, targets, questions).items()}
