"""The paper's protocol on made-up runs with known answers; predictions that are damaged have no vote."""

from __future__ import annotations

import io
import math
import os
import pickle
import zipfile
from collections import Counter
from statistics import mean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel
from sklearn.metrics import f1_score

from run_scripts.report.scores import Votes, choose, mean_over, paired_test, rows_of, vote

from . import made


def test_dev_chooses_the_learning_rate_and_test_is_reported():
    good_on_dev = [made.run("a", "CR", seed, 1e-3, dev=90, test=70 + seed) for seed in (3, 1, 2)]
    good_on_test = [made.run("a", "CR", seed, 5e-3, dev=89, test=99) for seed in (1, 2, 3)]
    score = choose([*good_on_test, *good_on_dev])
    assert score.lr == 1e-3
    assert score.seeds == (1, 2, 3)
    assert score.test == 72
    assert score.dev == 90
    assert score.std == pytest.approx(np.std([71, 72, 73], ddof=1)) == 1


def test_the_mean_of_dev_counts_and_not_its_best_seed():
    steady = [made.run("a", "CR", seed, 1e-4, dev=85, test=1) for seed in (1, 2)]
    lucky = [made.run("a", "CR", seed, 1e-3, dev=dev, test=2) for seed, dev in ((1, 95), (2, 60))]
    assert choose([*lucky, *steady]).lr == 1e-4


def test_a_learning_rate_with_fewer_seeds_is_not_chosen():
    complete = [made.run("a", "CR", seed, 1e-4, dev=85) for seed in (1, 2)]
    assert choose([made.run("a", "CR", 1, 1e-3, dev=95), *complete]).lr == 1e-4


def test_of_equal_dev_scores_the_smaller_rate_wins():
    equal = [made.run("a", "CR", 1, lr, dev=85) for lr in (1e-3, 1e-4, 5e-3)]
    assert choose(equal).lr == 1e-4


@given(st.integers(200, 250), st.integers(1, 9), st.integers(1, 40))
def test_equal_means_of_unequal_seeds_are_equal(right, apart, most):
    """Of 300 examples; as floats the two means may differ in their last digit."""
    spread = [made.run("a", "CR", seed, 1e-4, dev=100 * (right + by) / 300) for seed, by in ((1, apart), (2, -apart))]
    same = [made.run("a", "CR", seed, 1e-3, dev=100 * right / 300) for seed in (1, 2)]
    assert choose([*same, *spread]).lr == 1e-4
    assert choose([same[0], {**same[1], "dev": same[1]["dev"] + most / 400_000}, *spread]).lr == 1e-3


FAST = [made.run("a", "CR", seed, 5e-3, dev=90) for seed in (1, 2)]
SLOW = [made.run("a", "CR", seed, 1e-3, dev=70) for seed in (1, 2, 3)]
GONE = made.failed("a", "CR", 3, lr=5e-3, reason="diverged")


def test_a_rate_with_a_seed_that_diverged_is_out():
    """Even where all rates have as many seeds left."""
    for reason in ("diverged", "out of memory"):
        assert choose([*FAST, *SLOW[:2]], [{**GONE, "reason": reason}]).lr == 1e-3
    for other in ({"reason": None}, {"lr": 1e-4}, {"row": "b"}, {"task": "MR"}, {"k": 100}, {"position": 4}):
        assert choose([*FAST, *SLOW[:2]], [{**GONE, **other}]).lr == 5e-3
    for other in ({"prompt_length": 50}, {"backbone": {"path": "x", "sha256": "cd" * 16}}):
        assert choose([*FAST, *SLOW[:2]], [{**GONE, **other}]).lr == 5e-3
    for unknown in ({"prompt_length": None}, {"backbone": {"path": "x", "sha256": ""}}):
        assert choose([*FAST, *SLOW[:2]], [{**GONE, **unknown}]).lr == 1e-3


def test_a_prompt_of_another_length_that_diverged_takes_no_rate_away():
    """A run that fails does not know its prompt's length, but what it was asked for."""
    five, ten = ({"given_options": options} for options in (["--fp16"], ["--fp16", "--prompt-length", "10"]))
    runs = [{**run, **five} for run in (*FAST, *SLOW[:2])]
    longer = [{**run, **ten, "prompt_length": 10} for run in runs]
    gone = {**GONE, "prompt_length": None}
    assert choose(runs, [{**gone, **five}]).lr == choose(longer, [{**gone, **ten}]).lr == 1e-3
    assert choose(runs, [{**gone, **ten}]).lr == choose(longer, [{**gone, **five}]).lr == 5e-3
    assert choose(runs, [{**gone, "given_options": ["--prompt-length=5"]}]).lr == 1e-3


def test_where_every_rate_is_out_there_is_no_score():
    out = [GONE, {**GONE, "lr": 1e-3}]
    assert choose([*FAST, *SLOW], out) is None
    assert rows_of([*FAST, *SLOW, made.run("a", "MR")], failed=out).keys() == {"a"}
    assert rows_of([*FAST, *SLOW, made.run("a", "MR")], failed=out)["a"].keys() == {"MR"}


def test_one_seed_has_no_deviation():
    assert choose([made.run("a", "CR")]).std is None


def test_an_average_needs_all_tasks():
    assert mean_over({"CR": 1.0, "RTE": 3.0, "MR": 9.0}, ["CR", "RTE"]) == 2
    assert mean_over({"CR": 1.0}, ["CR", "RTE"]) is None


def row(tests: dict[str, list[float]], **more):
    runs = [made.run("a", task, seed, test=test, **more) for task, of in tests.items() for seed, test in enumerate(of)]
    return rows_of(runs)["a"]


def test_significance_is_that_of_scipy_over_tasks_and_seeds():
    one = {"CR": [91.0, 92.0, 93.5], "RTE": [70.0, 71.0, 75.0]}
    other = {"CR": [90.0, 91.5, 92.0], "RTE": [70.5, 69.0, 73.0]}
    expected = ttest_rel(one["CR"] + one["RTE"], other["CR"] + other["RTE"]).pvalue
    found = paired_test(row(one), row(other))
    assert (found.p, found.n) == (pytest.approx(expected), 6)
    assert str(found) == f"{expected:.3f}{'*' if expected < 0.05 else ''} (n=6)"


def test_significance_by_hand():
    """Differences 1, 2, 3: mean 2, deviation 1, t = 2 sqrt(3) with 2 degrees of freedom; p = 1 - t / sqrt(t² + 2)."""
    t = 2 * math.sqrt(3)
    found = paired_test(row({"CR": [11, 22, 33]}), row({"CR": [10, 20, 30]}))
    assert found.p == pytest.approx(1 - t / math.sqrt(t**2 + 2))
    assert str(found) == "0.074 (n=3)"


def test_only_shared_tasks_and_seeds_are_compared():
    found = paired_test(row({"CR": [1, 2, 3], "RTE": [5, 6]}), row({"CR": [1, 3], "MR": [7, 8]}))
    assert found.n == 2
    assert str(paired_test(row({"CR": [1]}), row({"CR": [2]}))) == "- (n=1)"
    assert str(paired_test(row({"CR": [1, 2]}), row({"CR": [1, 2]}))) == "- (n=2)"


def test_differences_that_are_all_the_same_prove_nothing():
    """One example of 300 more, with each of two seeds: the deviation is 0, or what floats make of it."""
    ours, theirs = ([100 * right / 300 for right in seeds] for seeds in ((242, 244), (241, 243)))
    assert ours[0] - theirs[0] != ours[1] - theirs[1]
    assert str(paired_test(row({"CR": ours}), row({"CR": theirs}))) == "- (n=2)"
    assert str(paired_test(row({"CR": [2, 3]}), row({"CR": [1, 2]}))) == "- (n=2)"
    assert str(paired_test(row({"CR": [2, 3.001]}), row({"CR": [1, 2]}))) == "<0.001* (n=2)"


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=6))
def test_the_vote_is_the_smallest_of_the_most_frequent_classes(runs):
    found = vote([np.array(run) for run in runs], regression=False)
    for i, answer in enumerate(found):
        counts = Counter(run[i] for run in runs)
        assert answer == min(name for name, count in counts.items() if count == max(counts.values()))


def test_the_vote_of_scores_is_their_average():
    assert vote([np.array([1.0, 2.0]), np.array([3.0, 2.5])], regression=True).tolist() == [2.0, 2.25]


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


def test_the_vote_of_answers_is_scored_by_questions(tmp_path):
    question, right = [0, 0, 1, 1], [1, 0, 1, 1]
    seeds = [[1, 0, 1, 0], [1, 1, 1, 0], [1, 0, 0, 1]]  # the vote: 1, 0, 1, 0
    runs = [
        made.save_predictions(tmp_path, made.run("a", "MultiRC", seed), said, right, question=question)
        for seed, said in enumerate(seeds)
    ]
    assert voted(tmp_path, runs) == ({"MultiRC": pytest.approx(50 * (0.5 + 0.8))}, [])


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


@settings(deadline=None, max_examples=150)
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
