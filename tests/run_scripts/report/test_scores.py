"""The paper's protocol on made-up runs with known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel, wilcoxon

from run_scripts.report.scores import Comparison, Significance, choose, mean_over, paired_test, rows_of, std_of_mean

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
    assert choose(runs, [{**gone, "given_options": ["--fp16", "--prompt-length=5"]}]).lr == 1e-3


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


def test_means_over_tasks_of_other_seeds_have_no_deviation():
    of_cr = [made.run("a", "CR", seed, test=float(seed)) for seed in (1, 2)]
    for seeds, deviation in (((1, 2), pytest.approx(0.5**0.5)), ((1, 3), None)):
        runs = [*of_cr, *(made.run("a", "MR", seed, test=float(seed)) for seed in seeds)]
        assert std_of_mean(rows_of(runs)["a"], ["CR", "MR"]) == deviation


def row(tests: dict[str, list[float]], **more):
    runs = [made.run("a", task, seed, test=test, **more) for task, of in tests.items() for seed, test in enumerate(of)]
    return rows_of(runs)["a"]


@pytest.mark.parametrize("test, scipys", [("t", ttest_rel), ("wilcoxon", wilcoxon)])
def test_significance_is_that_of_scipy_over_tasks_and_seeds(test, scipys):
    one = {"CR": [91.0, 92.0, 93.5], "RTE": [70.0, 71.0, 75.0]}
    other = {"CR": [90.0, 91.5, 92.0], "RTE": [70.5, 69.0, 73.0]}
    expected = scipys(one["CR"] + one["RTE"], other["CR"] + other["RTE"]).pvalue
    found = paired_test(row(one), row(other), Significance(test))
    assert (found.difference, found.p, found.n) == (pytest.approx(6.5 / 6), pytest.approx(expected), 6)
    assert str(found) == f"+1.1 (p={expected:.3f}{'*' if expected < 0.05 else ''}, n=6)"
    assert paired_test(row(other), row(one), Significance(test)).difference == -found.difference


def test_significance_by_hand():
    """Differences 1, 2, 3: mean 2, deviation 1, t = 2 sqrt(3) with 2 degrees of freedom; p = 1 - t / sqrt(t² + 2)."""
    t = 2 * math.sqrt(3)
    found = paired_test(row({"CR": [11, 22, 33]}), row({"CR": [10, 20, 30]}))
    assert found.p == pytest.approx(1 - t / math.sqrt(t**2 + 2))
    assert str(found) == "+2.0 (p=0.074, n=3)"


def test_ranks_by_hand():
    """All 3 differences up, or all 3 down: 2 of 8 signs of their ranks. One large difference changes nothing."""
    ours, theirs = row({"CR": [11, 22, 930]}), row({"CR": [10, 20, 30]})
    assert str(paired_test(ours, theirs, Significance("wilcoxon"))) == "+301.0 (p=0.250, n=3)"


def test_only_shared_tasks_and_seeds_are_compared():
    found = paired_test(row({"CR": [1, 2, 3], "RTE": [5, 6]}), row({"CR": [1, 3], "MR": [7, 8]}))
    assert (found.difference, found.n) == (-0.5, 2)
    assert str(paired_test(row({"CR": [1]}), row({"MR": [2]}))) == "- (n=0)"
    assert str(paired_test(row({"CR": [1]}), row({"CR": [2]}))) == "-1.0 (p=-, n=1)"
    assert str(paired_test(row({"CR": [1, 2]}), row({"CR": [1, 2]}))) == "+0.0 (p=-, n=2)"


def test_over_tasks_a_task_counts_once_however_many_seeds_it_has():
    """Differences 1 (of 2, 1 and 0), 2 (of 2) and 3 (of 4 and 2), as by hand above; MR's fourth seed has no pair."""
    ours = row({"CR": [2, 3, 4], "MR": [9, 9], "RTE": [8, 8], "SST-2": [1]})
    theirs = row({"CR": [0, 2, 4], "MR": [7, 7, 7, 7], "RTE": [4, 6]})
    found = paired_test(ours, theirs, Significance(over="tasks"))
    assert str(found) == "+2.0 (p=0.074, n=3)" and found.difference == 2
    assert str(paired_test(ours, theirs, Significance("wilcoxon", "tasks"))) == "+2.0 (p=0.250, n=3)"
    assert str(paired_test(ours, row({"CR": [0, 2, 4]}), Significance(over="tasks"))) == "+1.0 (p=-, n=1)"


@pytest.mark.parametrize("test", ["t", "wilcoxon"])
def test_differences_that_are_all_the_same_prove_nothing(test):
    """One example of 300 more, with each of two seeds: the deviation is 0, or what floats make of it."""
    ours, theirs = ([100 * right / 300 for right in seeds] for seeds in ((242, 244), (241, 243)))
    assert ours[0] - theirs[0] != ours[1] - theirs[1]
    assert str(paired_test(row({"CR": ours}), row({"CR": theirs}), Significance(test))) == "+0.3 (p=-, n=2)"
    assert str(paired_test(row({"CR": [2, 3]}), row({"CR": [1, 2]}), Significance(test))) == "+1.0 (p=-, n=2)"
    assert str(paired_test(row({"CR": [2, 3.001]}), row({"CR": [1, 2]}))) == "+1.0 (p<0.001*, n=2)"


@pytest.mark.parametrize(
    ("p", "shown"), [(0.05, "p=0.050"), (0.0499, "p=0.050*"), (0.001, "p=0.001*"), (0.0009, "p<0.001*")]
)
def test_limits_of_significance(p, shown):
    assert str(Comparison(1.0, p, 3)) == f"+1.0 ({shown}, n=3)"
