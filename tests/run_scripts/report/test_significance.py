"""Differences between made-up rows with known answers, beside scipy's and by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel, wilcoxon

from run_scripts.report.scores import rows_of
from run_scripts.report.significance import Comparison, Significance, correct, holm, paired_test

from . import made

P_VALUES = st.lists(st.floats(0, 1), max_size=12)


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


def test_holms_correction_by_hand():
    """Sorted 0.005, 0.01, 0.03, 0.04: 4, 3, 2 and 1 times these, and none below the one before it."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.4, 0.6]) == [0.8, 0.8] and holm([0.9, 0.6]) == [1, 1] and holm([]) == []


@given(P_VALUES, st.floats(0.001, 0.999))
def test_holms_correction_rejects_step_by_step(p_values, level):
    """As it is most often told: from the smallest on, while p is below level / (how many are left)."""
    rejected = 0
    while rejected < len(p_values) and sorted(p_values)[rejected] * (len(p_values) - rejected) < level:
        rejected += 1
    assert sum(p < level for p in holm(p_values)) == rejected


@given(P_VALUES)
def test_holms_correction_keeps_order_and_never_goes_beyond_bonferroni(p_values):
    corrected = holm(p_values)
    assert [c for _, c in sorted(zip(p_values, corrected))] == sorted(corrected)
    assert all(p <= c <= min(1, len(p_values) * p) for p, c in zip(p_values, corrected))


def test_two_stars_are_of_the_corrected_p_and_rows_without_p_do_not_count():
    found = {name: Comparison(1.0, p, 9) for name, p in (("a", 0.04), ("b", 0.02), ("c", math.nan), ("d", 0.3))}
    assert [str(comparison) for comparison in correct(found).values()] == [
        "+1.0 (p=0.040*, n=9)",
        "+1.0 (p=0.020*, n=9)",
        "+1.0 (p=-, n=9)",
        "+1.0 (p=0.300, n=9)",
    ]
    del found["d"]
    assert [comparison.stars for comparison in correct(found).values()] == ["**", "**", ""]
