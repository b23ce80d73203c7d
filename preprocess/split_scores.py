"""SuperGLUE's scores of a whole split that are not means over its examples; all from 0 to 1.

Examples may be answers to one question. COPA and ReCoRD are answered by choice, with the example that is the likeliest
to have the label 1. MultiRC's answers are each right or wrong.

Source: jiant, the toolkit of SuperGLUE's authors (jiant/tasks/qa.py at 02035f8, jiant/tasks/evaluate/core.py at
00f4522). Differs from jiant in the classes of macro F1, which are those that targets or answers have, as in
scikit-learn and in the metric of huggingface/datasets; jiant counts one that neither has as 0.
"""

from collections.abc import Callable

import numpy as np

from .questions import Questions

Scores = dict[str, float]


def chosen(questions: Questions, likely: np.ndarray) -> np.ndarray:
    """Return N numbers: 1 for each question's likeliest example (of equal ones the first), 0 for all others."""
    order = np.lexsort((np.arange(len(likely)), -likely, questions.number))
    first = np.unique(questions.number[order], return_index=True)[1]
    return np.isin(np.arange(len(likely)), order[first]).astype(np.int64)


def choice_accuracy(answers: np.ndarray, targets: np.ndarray, questions: Questions | None = None) -> Scores:
    """COPA: the share of questions whose chosen example has the label 1; ``answers``: those of ``chosen``."""
    return {"choice_accuracy": float(np.mean(targets[answers == 1] == 1))}


def choice_f1_and_em(answers: np.ndarray, targets: np.ndarray, questions: Questions | None = None) -> Scores:
    """ReCoRD: agreement of the chosen texts with the right ones, as F1 of words and as exact match."""
    assert questions is not None and questions.f1 is not None and questions.em is not None
    f1, em = (float(np.mean(agreement[answers == 1])) for agreement in (questions.f1, questions.em))
    return {"choice_f1": f1, "choice_em": em, "choice_f1_and_em": (f1 + em) / 2}


def f1a_and_em(answers: np.ndarray, targets: np.ndarray, questions: Questions | None = None) -> Scores:
    """MultiRC: F1 of the label 1 over all answers, and the share of questions with all answers judged rightly."""
    from sklearn.metrics import f1_score  # slow to import

    assert questions is not None
    f1a = f1_score(targets == 1, answers == 1, zero_division=0)
    mistakes = np.bincount(np.unique(questions.number, return_inverse=True)[1], answers != targets)
    em = float(np.mean(mistakes == 0))
    return {"f1a": f1a, "em": em, "f1a_and_em": (f1a + em) / 2}


def acc_and_macro_f1(answers: np.ndarray, targets: np.ndarray, questions: Questions | None = None) -> Scores:
    """CB: accuracy, and the mean of the classes' F1."""
    from sklearn.metrics import f1_score  # slow to import

    accuracy = float(np.mean(answers == targets))
    macro_f1 = float(f1_score(targets, answers, average="macro", zero_division=0))
    return {"accuracy": accuracy, "macro_f1": macro_f1, "acc_and_macro_f1": (accuracy + macro_f1) / 2}


Metric = Callable[[np.ndarray, np.ndarray, Questions | None], Scores]
_FUNCTIONS: tuple[Metric, ...] = (acc_and_macro_f1, choice_accuracy, f1a_and_em, choice_f1_and_em)
METRICS = {metric.__name__: metric for metric in _FUNCTIONS}
PARTS: dict[str, tuple[str, ...]] = {  # of each metric, what is logged
    "acc_and_macro_f1": ("macro_f1", "acc_and_macro_f1"),
    "choice_accuracy": ("choice_accuracy",),
    "f1a_and_em": ("f1a", "em", "f1a_and_em"),
    "choice_f1_and_em": ("choice_f1", "choice_em", "choice_f1_and_em"),
}
BY_CHOICE = ("choice_accuracy", "choice_f1_and_em")
OF_QUESTIONS = (*BY_CHOICE, "f1a_and_em")
OF_TEXTS = ("choice_f1_and_em",)
