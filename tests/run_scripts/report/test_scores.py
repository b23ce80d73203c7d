"""The paper's protocol on made-up runs with known answers: rates and votes."""

import math
import os
import pickle

import numpy as np
import pytest

from run_scripts.report.choice import Scope, choose
from run_scripts.report.scores import Votes, std_of_mean

from . import made


@pytest.mark.parametrize(
    ("rates", "chosen"),
    [
        ({1e-3: {1: 60.1, 2: 60.7}, 1e-4: {1: 60.4, 2: 60.4}}, 1e-4),  # equal, but for the last digit of a float
        ({1e-3: {1: 95, 2: 60}, 1e-4: {1: 85, 2: 85}}, 1e-4),  # the mean counts, not the best seed
        ({1e-3: {1: 95}, 1e-4: {1: 85, 2: 85}}, 1e-4),  # fewer seeds are not chosen
        ({1e-3: {1: 55, 2: 60}, 5e-3: {1: 50, 3: 70}}, 1e-3),  # compared on seed 1, which both have
        ({1e-3: {1: 55}, 5e-3: {2: 60}}, 5e-3),  # no seed is shared
    ],
)
def test_the_rate_that_is_chosen(rates, chosen):
    runs = [made.run("a", "CR", seed, lr, dev) for lr, of in rates.items() for seed, dev in of.items()]
    assert choose(runs).lr == chosen


FAST = [made.run("a", "CR", seed, 5e-3, dev=90) for seed in (1, 2)]
SLOW = [made.run("a", "CR", seed, 1e-3, dev=70) for seed in (1, 2, 3)]
GONE = made.failed("a", "CR", 3, lr=5e-3, reason="diverged")


@pytest.mark.parametrize(
    ("gone", "chosen"),
    [
        *(({"reason": reason}, 1e-3) for reason in ("diverged", "out of memory")),
        *((other, 5e-3) for other in ({"reason": None}, {"lr": 1e-4}, {"task": "MR"}, {"prompt_length": 50})),
        *((other, 1e-3) for other in ({"prompt_length": None}, {"backbone": {"path": "x", "sha256": ""}})),
    ],
)
def test_a_rate_with_a_seed_that_diverged_is_out(gone, chosen):
    """Even where all rates have as many seeds left; what a failed run does not know may be as in the others."""
    assert choose([*FAST, *SLOW[:2]], [{**GONE, **gone}]).lr == chosen


def test_the_deviation_of_an_average_needs_the_same_seeds():
    for others, deviation in (((1, 2), pytest.approx(0.5**0.5)), ((1, 3), None)):
        runs = [made.run("a", "CR", seed, test=float(seed)) for seed in (1, 2)]
        runs += [made.run("a", "MR", seed, test=float(seed)) for seed in others]
        assert std_of_mean(Scope(runs).rows("row")["a"], ["CR", "MR"]) == deviation


# --- votes ---------------------------------------------------------------------------------------

NOT_THERE = "no vote, as predictions are not there or damaged"


def voted(folder, runs):
    votes = Votes(folder)
    return votes.of(Scope(runs).rows("row")["a"]), votes.notes


def saved(folder, task: str, predictions, targets, **more):
    return [
        made.save_predictions(folder, made.run("a", task, seed, test=50.0), test, targets, **more)
        for seed, test in enumerate(predictions)
    ]


QUESTION, RIGHT = [0, 1, 0, 1, 0], [0, 0, 1, 1, 0]
CHOICES = [[1, 0, 0, 1, 0], [0, 0, 1, 1, 0], [0, 1, 0, 0, 1]]  # question 1: two are right; 0: a tie, the first wins
TEXTS = {"question": QUESTION, "em": [0.0, 0.0, 1.0, 1.0, 0.0], "f1": [0.25, 0.0, 1.0, 1.0, 0.0]}


@pytest.mark.parametrize(
    ("task", "seeds", "right", "more", "score"),
    [
        ("MRPC", [[1, 1, 0, 1], [1, 0, 0, 0], [1, 0, 0, 0]], [1, 1, 0, 0], {}, (75 + 200 / 3) / 2),  # 1, 0, 0, 0
        ("STS-B", [[0.0, 1.0, 5.0], [2.0, 3.0, 3.0]], [10.0, 20.0, 40.0], {}, 100),  # means 1, 2, 4
        ("COPA", CHOICES, RIGHT, {"question": QUESTION}, 50.0),
        ("ReCoRD", CHOICES, RIGHT, TEXTS, 50 * (0.5 + 0.625)),
        ("MultiRC", [[1, 0, 1, 0], [1, 1, 1, 0], [1, 0, 0, 1]], [1, 0, 1, 1], {"question": [0, 0, 1, 1]}, 65.0),
    ],
)
def test_the_vote_is_scored_with_the_tasks_metric(tmp_path, task, seeds, right, more, score):
    assert voted(tmp_path, saved(tmp_path, task, seeds, right, **more)) == ({task: pytest.approx(score)}, [])


def test_predictions_that_cannot_be_read_are_told(tmp_path):
    """Not there, shorter than their targets, not finite; or of other examples."""
    runs = [made.run("a", "RTE", predictions="runs/gone/predictions.npz")]
    runs += [*saved(tmp_path, "MPQA", [[1, 0]], [1, 0, 0]), *saved(tmp_path, "SUBJ", [[1, math.nan]], [1, 0])]
    runs += [*saved(tmp_path, "MR", [[1, 0]], [1, 0]), *saved(tmp_path, "MR", [[1, 0]], [0, 1])]
    others = "no vote, as the seeds were tested on different examples: a on MR"
    assert voted(tmp_path, runs) == ({}, [f"{NOT_THERE}: a on RTE, a on MPQA, a on SUBJ", others])


def test_predictions_run_nothing_and_are_read_in_their_folder_alone(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    results = tmp_path / "results"
    (run,) = saved(results, "CR", [[1, 0, 1]], [1, 0, 0])
    (results / run["predictions"]).write_bytes(pickle.dumps(Evil()))
    array = np.empty(3, dtype=object)
    array[:] = [Evil()] * 3
    np.savez(results / "objects.npz", test=array, test_targets=array, allow_pickle=True)
    np.savez(tmp_path / "x.npz", test=np.array([1, 0, 1]), test_targets=np.array([1, 0, 0]))
    for place in (run["predictions"], "objects.npz", "../x.npz", "/dev/zero"):
        assert voted(results, [{**run, "predictions": place}]) == ({}, [f"{NOT_THERE}: a on CR"])
    assert not (tmp_path / "executed").exists()
