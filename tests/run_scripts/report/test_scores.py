"""The paper's protocol on made-up runs with known answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_scripts.report.scores import choose, mean_over, rows_of, std_of_mean

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


def of_rates(devs):
    """Runs by learning rate and seed."""
    return [made.run("a", "CR", seed, lr, dev) for lr, of in devs.items() for seed, dev in of.items()]


def test_rates_with_as_many_seeds_but_others_are_compared_on_the_shared_ones():
    """As where jobs were killed: the mean of 5e-3 is higher by a seed that 1e-3 has not."""
    score = choose(of_rates({1e-3: {1: 55, 2: 60}, 5e-3: {1: 50, 3: 70}}))
    assert score.lr == 1e-3 and score.compared_on(score.others[0]) == [1]
    of_three = choose(of_rates({1e-3: {1: 55, 2: 60}, 5e-3: {1: 50, 2: 99}, 1e-2: {1: 54, 3: 90}, 1e-4: {2: 99}}))
    assert of_three.lr == 1e-3 and of_three.seeds == (1, 2)  # all three share seed 1 alone
    assert [(other.lr, of_three.compared_on(other)) for other in of_three.others] == [(1e-2, [1]), (1e-4, [2])]
    apart = choose(of_rates({1e-3: {1: 55}, 5e-3: {2: 60}}))
    assert apart.lr == 5e-3 and apart.compared_on(apart.others[0]) == []


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
