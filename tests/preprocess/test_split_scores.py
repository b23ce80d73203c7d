"""Scores of SuperGLUE on known answers, beside scikit-learn and beside the public scoring code in other words."""

import re
import string
from collections import Counter, defaultdict
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from preprocess import split_scores as scores
from preprocess.questions import Questions, answer_text

EXAMPLES = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 1), st.integers(-3, 3)), min_size=1, max_size=40
)  # question, answer, target, likelihood
WORDS = st.lists(st.sampled_from(["the", "The", "a", "Bush", "bush,", "U.S.", "us", "Ann's", "-", ""]), max_size=5)
TEXTS = WORDS.map(" ".join)


def columns(examples):
    return [np.array(column) for column in zip(*examples)]


@given(EXAMPLES)
def test_multirc_as_the_public_metric_has_it(examples):
    """evaluate_multirc in metrics/super_glue/super_glue.py of huggingface/datasets."""
    question, answers, targets, _ = columns(examples)
    by_question = defaultdict(list)
    for number, answer, target in zip(question, answers, targets):
        by_question[number].append(answer == target)
    found = scores.f1a_and_em(answers, targets, Questions(question))
    assert found["em"] == pytest.approx(mean(float(all(same)) for same in by_question.values()))
    assert found["f1a"] == pytest.approx(f1_score(targets, answers, zero_division=0))
    assert found["f1a_and_em"] == pytest.approx((found["em"] + found["f1a"]) / 2)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_macro_f1_as_scikit_learn_has_it(pairs):
    answers, targets = columns(pairs)
    found = scores.acc_and_macro_f1(answers, targets)
    assert found["accuracy"] == pytest.approx(np.mean(answers == targets))
    assert found["macro_f1"] == pytest.approx(f1_score(targets, answers, average="macro", zero_division=0))
    assert found["acc_and_macro_f1"] == pytest.approx((found["accuracy"] + found["macro_f1"]) / 2)


@given(EXAMPLES)
def test_choices_as_jiant_makes_them(examples):
    """Whoever is the first with the highest score of its question (get_metrics of ReCoRDTask, jiant/tasks/qa.py)."""
    question, _, targets, likely = columns(examples)
    best: dict = {}
    for row, number in enumerate(question):
        if number not in best or likely[row] > likely[best[number]]:
            best[number] = row
    found = scores.chosen(Questions(question), likely)
    assert sorted(np.flatnonzero(found)) == sorted(best.values())
    right = mean(float(targets[row]) for row in best.values())
    assert scores.choice_accuracy(found, targets)["choice_accuracy"] == pytest.approx(right)


def official(text):
    """The words of an answer (normalize_answer in ReCoRD's evaluate.py)."""
    plain = "".join(sign for sign in text.lower() if sign not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def official_f1(one, other):
    same = sum((Counter(one) & Counter(other)).values())
    precision, recall = (same / max(len(words), 1) for words in (one, other))
    return 2 * precision * recall / (precision + recall) if same else 0


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=4))
def test_texts_agree_as_in_records_official_evaluation(text, right):
    found = answer_text(text, right)
    assert found.em == max(official(text) == official(other) for other in right)
    assert found.f1 == pytest.approx(max(official_f1(official(text), official(other)) for other in right))
