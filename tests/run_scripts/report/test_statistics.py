"""Differences between rows: tests and intervals beside scipy's and by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from preprocess.errors import InputError
from run_scripts.report import statistics
from run_scripts.report.choice import Scope
from run_scripts.report.statistics import Comparison, bootstrap, compare_rows, correct, within_tasks
from run_scripts.run.records import packed_classes

from . import made


def row(tests: dict[str, list[float]]):
    return Scope([run for task, of in tests.items() for run in made.seeds("a", task, of)]).rows("row")["a"]


# By hand: the differences 1, 2, 3 have mean 2 and deviation 1, so t = 2 sqrt(3) with 2 degrees of freedom, and
# p = 1 - t / sqrt(t² + 2) = 0.074; of 8 signs of 3 ranks, 2 are all up or all down: 0.250.
@pytest.mark.parametrize(
    ("one", "other", "how", "said"),
    [
        ({"CR": [11, 22, 930]}, {"CR": [10, 20, 30]}, {"test": "wilcoxon"}, "+301.0 (p=0.250, n=3)"),
        ({"CR": [1, 2, 3], "RTE": [5, 6]}, {"CR": [1, 3], "MR": [7, 8]}, {}, "-0.5 (p=0.500, n=2)"),  # shared pairs
        ({"CR": [1]}, {"CR": [2]}, {}, "-1.0 (p=-, n=1)"),
        # all the same, but for the last digit of a float, which proves nothing
        ({"CR": [100 * 242 / 300, 100 * 244 / 300]}, {"CR": [100 * 241 / 300, 81]}, {}, "+0.3 (p=-, n=2)"),
        ({"CR": [2, 3.001]}, {"CR": [1, 2]}, {}, "+1.0 (p<0.001*, n=2)"),
        (  # differences 1 (of 2, 1 and 0), 2 (of 2) and 3 (of 4 and 2); MR's fourth seed has no pair
            {"CR": [2, 3, 4], "MR": [9, 9], "RTE": [8, 8]},
            *({"CR": [0, 2, 4], "MR": [7] * 4, "RTE": [4, 6]}, {"over": "tasks"}, "+2.0 (p=0.074, n=3)"),
        ),
    ],
)
def test_differences_by_hand(one, other, how, said):
    assert str(compare_rows(row(one), row(other), **how)) == said


def test_the_interval_is_scipys_over_the_means_of_seeds():
    """Tasks are fixed; the third seed lacks one, so that its mean would be of other tasks."""
    one, other = {"CR": [80, 84, 90], "MR": [70, 77]}, {"CR": [79, 81, 10], "MR": [70, 72, 70]}
    found = compare_rows(row(one), row(other), over="seeds")
    expected = stats.ttest_rel([75.0, 80.5], [74.5, 76.5])
    assert found.p == pytest.approx(expected.pvalue)
    assert found.interval == pytest.approx(expected.confidence_interval(0.95)) and found.n == 2
    assert str(found) == "+2.2 [-20.0, +24.5] (p=0.421, n=2)"


def test_with_the_tasks_fixed_it_is_welchs():
    """Of two tasks, whose seeds differ by unlike amounts: scipy compares one with the other's negative."""
    one, other = {"CR": [80, 84, 90], "MR": [70, 77, 71, 75]}, {"CR": [79, 81, 70], "MR": [70, 72, 70, 68]}
    found = compare_rows(row(one), row(other), over="seeds-of-tasks")
    expected = stats.ttest_ind([1, 3, 20], [0, -5, -1, -7], equal_var=False)
    assert found.p == pytest.approx(expected.pvalue) and found.n == 7
    assert found.interval == pytest.approx([end / 2 for end in expected.confidence_interval(0.95)])


def test_the_bootstrap_of_examples_is_scipys():
    """Of one seed, where it draws examples alone; records hold the classes of several seeds and tasks packed."""
    generator = np.random.default_rng(0)
    targets, ours, theirs = generator.integers(0, 3, (3, 400))
    runs = [
        {**made.run("a", "CR", test=0.0), "test_classes": packed_classes(classes, targets)}
        for classes in (ours, theirs)
    ]
    one, other = (Scope([run]).rows("row")["a"] for run in runs)
    found = compare_rows(one, other, over="examples")
    difference = (ours == targets).astype(float) - (theirs == targets)
    expected = stats.bootstrap((difference,), np.mean, method="percentile", random_state=2).confidence_interval
    assert found.difference == pytest.approx(100 * difference.mean()) and found.n == 1
    assert found.interval == pytest.approx([100 * end for end in expected], abs=0.5)
    without = made.run("a", "CR")
    others = {
        "has no classes: report the FILE of .*publish": without,
        "other test examples": {**runs[0], "test_classes": packed_classes(ours, 2 - targets)},
    }
    for reason, run in others.items():
        with pytest.raises(InputError, match=reason):
            compare_rows(one, Scope([run]).rows("row")["a"], over="examples")
    scores = Scope([made.run("a", "STS-B")]).rows("row")["a"]
    with pytest.raises(InputError, match="has the metric pearson_and_spearman"):
        compare_rows(scores, scores, over="examples")


@pytest.mark.parametrize("spread", [(8, 8, 8, 8, 8), (32, 8, 8, 8, 8)])
def test_how_often_the_interval_within_tasks_holds_the_truth(spread):
    """Of three seeds on five tasks; with 1,000 samples the standard error of the share is 0.7 of a hundredth."""
    samples = np.random.default_rng(0).normal(0, np.array(spread)[:, None], (1000, 5, 3))
    intervals = [within_tasks(sample.tolist()).interval for sample in samples]
    assert sum(low <= 0 <= high for low, high in intervals) >= 0.93 * len(samples)


def test_the_bootstrap_is_too_narrow_where_seeds_differ_more_than_examples(monkeypatch):
    monkeypatch.setattr(statistics, "DRAWS", 300)
    generator, held = np.random.default_rng(0), 0
    for _ in range(100):
        right = generator.random((5, 3, 300)) < 0.5 + generator.normal(0, 0.08, (5, 3, 1))
        other = generator.random((5, 3, 300)) < 0.5 + generator.normal(0, 0.08, (5, 3, 1))
        low, high = bootstrap(list(right.astype(float) - other)).interval
        held += low <= 0 <= high
    assert held < 93


def test_p_values_are_corrected_as_holm_does():
    """Sorted 0.005, 0.01, 0.03, 0.04, 0.9: 5 to 1 times these, at most 1, none below the one before."""
    p_values = [0.01, math.nan, 0.04, 0.03, 0.005, 0.9]
    found = correct({number: Comparison(1.0, p, 9) for number, p in enumerate(p_values)})
    expected = [0.04, math.nan, 0.09, 0.09, 0.025, 0.9]
    assert [each.corrected for each in found.values()] == pytest.approx(expected, nan_ok=True)
    assert [str(each).count("*") for each in found.values()] == [2, 0, 1, 1, 2, 0]
