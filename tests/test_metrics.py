"""Metrics that choose the best checkpoint."""

from __future__ import annotations

import pytest

from fairseq_idpg.errors import InputError
from fairseq_idpg.metrics import check_metric
from tests.folders import training_arguments

METRIC = "--best-checkpoint-metric"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([METRIC, "nothing"], f"{METRIC} nothing is not logged"),
        ([METRIC, "f1"], "--report-acc-and-f1"),
        ([METRIC, "em"], "--criterion sentence_prediction_idpg"),
        (["--regression-target"], f"{METRIC} accuracy is not logged"),
    ],
)
def test_what_is_not_logged(given, named):
    with pytest.raises(InputError, match=named):
        check_metric(training_arguments(*given))


def test_the_checkpoint_that_is_kept_is_the_best():
    args = training_arguments()
    for metric, highest in (("accuracy", True), ("loss", False), ("nll_loss", False)):
        args.best_checkpoint_metric, args.maximize_best_checkpoint_metric = metric, highest
        check_metric(args)
        args.maximize_best_checkpoint_metric = not highest
        with pytest.raises(InputError, match=f"{METRIC} {metric} .* would keep the worst checkpoint"):
            check_metric(args)


def test_another_criterion_has_metrics_of_its_own():
    for highest in ([], ["--maximize-best-checkpoint-metric"]):
        check_metric(training_arguments("--criterion", "masked_lm", METRIC, "perplexity", *highest))


def test_metrics_of_our_criterion():
    check_metric(training_arguments("--criterion", "sentence_prediction_idpg", METRIC, "em", "--report-f1a-and-em"))
