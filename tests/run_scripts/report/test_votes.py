"""The vote of a row's seeds on predictions with known answers; those that are damaged have none."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections import Counter
from statistics import mean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from run_scripts.report.scores import rows_of
from run_scripts.report.votes import Votes, vote

from . import made


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=6))
def test_the_vote_is_the_smallest_of_the_most_frequent_classes(runs):
    found = vote([np.array(run) for run in runs], regression=False)
    for i, answer in enumerate(found):
        counts = Counter(run[i] for run in runs)
        assert answer == min(name for name, count in counts.items() if count == max(counts.values()))


def test_the_vote_of_scores_is_their_average():
    runs = [np.array(run) for run in ([1.0, 2.0], [3.0, 2.5], [8.0, 3.0])]
    assert vote(runs, regression=True).tolist() == [4.0, 2.5]


TARGETS = [1, 1, 0, 0]
SEEDS = ([1, 1, 0, 1], [1, 0, 0, 0], [1, 0, 0, 0])  # the majority: 1, 0, 0, 0


def voted(folder, runs):
    votes = Votes(folder)
    return votes.of(rows_of(runs)["a"]), votes.notes


def saved(folder, task: str, predictions, targets):
    return [
        made.save_predictions(folder, made.run("a", task, seed, test=50.0), test, targets)
        for seed, test in enumerate(predictions)
    ]


def test_the_vote_of_classes_is_scored_with_the_tasks_metric(tmp_path):
    assert voted(tmp_path, saved(tmp_path, "CR", SEEDS, TARGETS)) == ({"CR": 75.0}, [])
    f1 = f1_score(TARGETS, [1, 0, 0, 0])
    assert voted(tmp_path, saved(tmp_path, "MRPC", SEEDS, TARGETS))[0]["MRPC"] == pytest.approx(mean([75, 100 * f1]))


def test_the_vote_of_scores_is_their_mean(tmp_path):
    predictions = [[0.0, 1.0, 5.0], [2.0, 3.0, 3.0]]  # means 1, 2, 4
    found, _ = voted(tmp_path, saved(tmp_path, "STS-B", predictions, [10.0, 20.0, 40.0]))
    assert found == {"STS-B": pytest.approx(100)}


def test_the_vote_of_choices_is_a_choice(tmp_path):
    """Of question 1 two seeds choose the right answer; of question 0 all choose another one, and the first wins."""
    question, right = [0, 1, 0, 1, 0], [0, 0, 1, 1, 0]
    seeds = [[1, 0, 0, 1, 0], [0, 0, 1, 1, 0], [0, 1, 0, 0, 1]]
    runs = [
        made.save_predictions(tmp_path, made.run("a", "COPA", seed), said, right, question=question)
        for seed, said in enumerate(seeds)
    ]
    assert voted(tmp_path, runs) == ({"COPA": 50.0}, [])
    texts = {"question": question, "em": [0.0, 0.0, 1.0, 1.0, 0.0], "f1": [0.25, 0.0, 1.0, 1.0, 0.0]}
    runs = [
        made.save_predictions(tmp_path, made.run("a", "ReCoRD", seed), said, right, **texts)
        for seed, said in enumerate(seeds)
    ]
    assert voted(tmp_path, runs) == ({"ReCoRD": 50 * (0.5 + 0.625)}, [])


@pytest.mark.parametrize(
    ("right", "seeds", "score"),
    [
        ([1, 0, 1, 1], [[1, 0, 1, 0], [1, 1, 1, 0], [1, 0, 0, 1]], 50 * (0.5 + 0.8)),  # the vote: 1, 0, 1, 0
        ([1, 1, 0, 0], [[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]], 100),  # 1, 1, 0, 0: several of a question are right
    ],
)
def test_the_vote_of_answers_is_scored_by_questions(tmp_path, right, seeds, score):
    runs = [
        made.save_predictions(tmp_path, made.run("a", "MultiRC", seed), said, right, question=[0, 0, 1, 1])
        for seed, said in enumerate(seeds)
    ]
    assert voted(tmp_path, runs) == ({"MultiRC": pytest.approx(score)}, [])


@pytest.mark.parametrize("more", [{}, {"question": [0]}, {"question": [0, float("nan")]}])
def test_choices_among_unknown_questions_have_no_vote(tmp_path, more):
    runs = [made.save_predictions(tmp_path, made.run("a", "COPA"), [1, 0], [1, 0], **more)]
    assert voted(tmp_path, runs) == ({}, ["no vote, as predictions are not there or damaged: a on COPA"])


def test_predictions_that_cannot_be_read_are_told(tmp_path):
    runs = [made.save_predictions(tmp_path, made.run("a", "CR", seed), [1, 0], [1, 0]) for seed in (1, 2)]
    (tmp_path / runs[1]["predictions"]).write_bytes(b"torn")
    gone = made.run("a", "RTE", predictions="runs/gone/predictions.npz")
    other = [
        made.save_predictions(tmp_path, made.run("a", "MR", seed), [1, 0], targets)
        for seed, targets in ((1, [1, 0]), (2, [0, 1]))
    ]
    votes = Votes(tmp_path)
    assert votes.of(rows_of([*runs, gone, *other])["a"]) == {}
    assert votes.notes == [
        "no vote, as predictions are not there or damaged: a on CR, a on RTE",
        "no vote, as the seeds were tested on different examples: a on MR",
    ]


SAID, RIGHT = [1, 0, 1], [1, 0, 0]
NOT_THERE = (["no vote, as predictions are not there or damaged: a on CR"],)


@pytest.mark.parametrize(
    "arrays",
    [
        {"test": np.array([1, 0, 1])},
        {"test": np.array([1, 0]), "test_targets": np.array([1, 0, 0])},
        {"test": np.array([[1, 0, 1]]), "test_targets": np.array([[1, 0, 0]])},
        {"test": np.array([1, 0, np.nan]), "test_targets": np.array([1, 0, 0])},
        {"test": np.array(["a", "b", "c"]), "test_targets": np.array(["a", "b", "c"])},
        {"test": np.array([]), "test_targets": np.array([])},
        {"test": np.array(1), "test_targets": np.array(1)},
    ],
    ids=["lacking", "shorter", "nested", "NaN", "texts", "empty", "number"],
)
def test_predictions_of_something_else_have_no_vote(tmp_path, arrays):
    runs = saved(tmp_path, "CR", [SAID, SAID], RIGHT)
    for record in runs:
        np.savez_compressed(tmp_path / record["predictions"], **arrays)
    assert voted(tmp_path, runs) == ({}, *NOT_THERE)


def test_predictions_run_nothing(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    runs = saved(tmp_path, "CR", [SAID], RIGHT)
    path = tmp_path / runs[0]["predictions"]
    path.write_bytes(pickle.dumps(Evil()))
    assert voted(tmp_path, runs) == ({}, *NOT_THERE)
    array = np.empty(3, dtype=object)
    array[:] = [Evil()] * 3
    np.savez(path, test=array, test_targets=array, allow_pickle=True)
    assert voted(tmp_path, runs) == ({}, *NOT_THERE)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("test.npy", pickle.dumps(Evil()))
        archive.writestr("test_targets.npy", b"")
    assert voted(tmp_path, runs) == ({}, *NOT_THERE)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("place", ["/dev/zero", "..", ".", "../x.npz", "a\0b"])
def test_predictions_elsewhere_are_not_read(tmp_path, place):
    results = tmp_path / "results"
    runs = [{**record, "predictions": place} for record in saved(results, "CR", [SAID], RIGHT)]
    np.savez(tmp_path / "x.npz", test=np.array([1, 0, 1]), test_targets=np.array([1, 0, 0]))
    assert voted(results, runs) == ({}, *NOT_THERE)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("votes")
    return folder, saved(folder, "CR", [SAID], RIGHT)


@settings(max_examples=150)
@given(st.data())
def test_damaged_predictions_have_no_vote_or_the_same(whole, data):
    """Bytes changed, or the end cut off."""
    folder, runs = whole
    packed = io.BytesIO()
    np.savez_compressed(packed, test=np.array([1, 0, 1]), test_targets=np.array([1, 0, 0]))
    content = bytearray(packed.getvalue())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[at] ^= data.draw(st.integers(1, 255))
    else:
        del content[at:]
    (folder / runs[0]["predictions"]).write_bytes(bytes(content))
    found, notes = voted(folder, runs)
    assert (found, notes) in (({}, *NOT_THERE), ({"CR": pytest.approx(200 / 3)}, []))
