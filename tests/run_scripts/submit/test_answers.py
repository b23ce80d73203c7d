"""Votes: by name, whatever order models have their classes in; scores in the task's scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.inference.folder import SplitPredictions
from preprocess.errors import InputError
from preprocess.questions import Questions
from preprocess.tasks import TASKS
from run_scripts.submit.answers import check_labels, voted

NAMES = ("contradiction", "entailment", "neutral")


def says(answers, order=NAMES):
    """Predictions of a model with its classes in this order."""
    order = list(order)
    return SplitPredictions(np.eye(len(order))[[order.index(answer) for answer in answers]], None, order)


def scores(*values):
    return SplitPredictions(np.array(values), None, [])


def test_most_seeds_decide_whatever_their_order():
    said = [
        says(["neutral", "entailment", "contradiction"]),
        says(["entailment", "entailment", "neutral"], ("neutral", "contradiction", "entailment")),
        says(["neutral", "neutral", "contradiction"], ("entailment", "neutral", "contradiction")),
    ]
    assert voted(TASKS["MNLI"], said) == ["neutral", "entailment", "contradiction"]


def test_one_seed_is_a_vote():
    assert voted(TASKS["RTE"], [says(["not_entailment"], ("not_entailment", "entailment"))]) == ["not_entailment"]


def test_among_equally_many_votes_the_first_name_wins():
    said = [says(["1", "0"], ("1", "0")), says(["0", "1"], ("1", "0"))]
    assert voted(TASKS["MRPC"], said) == ["0", "0"]


@given(st.permutations(NAMES), st.lists(st.sampled_from(NAMES), min_size=1, max_size=20))
def test_names_do_not_depend_on_ids(order, answers):
    assert voted(TASKS["CB"], [says(answers, order)]) == answers


def test_scores_are_a_mean_in_the_scale_of_the_task():
    said = [scores(0.5, 0.2, 1.4, -0.3), scores(0.7, 0.2, 1.2, 0.1)]
    assert voted(TASKS["STS-B"], said) == ["3.000000", "1.000000", "5.000000", "0.000000"]


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=20))
def test_scores_are_within_the_scale(values):
    assert all(0 <= float(score) <= 5 for score in voted(TASKS["STS-B"], [scores(*values)]))


def likely(*margins, order=("0", "1")):
    """A model with these differences between the logits of 1 and 0."""
    logits = np.array([[0.0, margin] for margin in margins])
    return SplitPredictions(logits if order == ("0", "1") else logits[:, ::-1].copy(), None, list(order))


def test_choices_are_voted_for():
    """Three seeds, one with its classes in another order; questions stand apart, their answers in order."""
    questions = Questions(np.array([7, 3, 7, 3]))
    said = [
        likely(-1.0, 2.0, -2.0, 1.0),
        likely(-1.0, 1.0, 2.0, 3.0, order=("1", "0")),
        likely(5.0, 1.0, 4.0, 2.0),
    ]
    assert voted(TASKS["COPA"], said, questions) == ["1", "0"]  # of question 3, of question 7


def test_a_chosen_entity_is_named():
    questions = Questions(np.array([0, 0, 0, 1, 1]), texts=("Ann", "Bea", "Cid", "Ann", "Bea"))
    said = [likely(0.0, 1.0, 0.5, -1.0, -2.0), likely(0.0, 1.0, 3.0, -1.0, 0.0)]
    assert voted(TASKS["ReCoRD"], said[:1], questions) == ["Bea", "Ann"]
    assert voted(TASKS["ReCoRD"], said, questions) == ["Bea", "Ann"]  # a vote each: the first


@pytest.mark.parametrize(
    ("task", "names", "said"),
    [
        ("SST-2", ["not_entailment", "entailment"], "answers not_entailment, entailment, and SST-2 takes 1, 0"),
        ("RTE", ["0", "1"], "answers 0, 1, and RTE takes entailment, not_entailment"),
        ("STS-B", ["0", "1"], "answers 0, 1, and STS-B takes scores"),
        ("MNLI", [], "answers scores, and MNLI takes contradiction, neutral, entailment"),
    ],
)
def test_other_labels_are_refused(task, names, said):
    with pytest.raises(InputError, match=f"x.pt {said}: submit runs on the data of python -m preprocess {task}"):
        check_labels(TASKS[task], names, Path("x.pt"))
