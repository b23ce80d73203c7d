"""Metrics that choose the best checkpoint."""

from __future__ import annotations

import pytest

from fairseq_idpg.errors import InputError
from fairseq_idpg.metrics import check_metric
from tests.folders import training_arguments

METRIC = "--best-checkpoint-metric"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([METRIC, "nothing"], f"{METRIC} nothing is unknown: give one of loss, "),
        ([METRIC, "f1"], f"{METRIC} f1 needs --report-acc-and-f1: give it too"),
        ([METRIC, "em"], f"{METRIC} em is none of this --criterion: give --criterion sentence_prediction_idpg"),
        (["--regression-target"], f"{METRIC} accuracy with --regression-target: give loss"),
        ([METRIC, "loss"], "loss with --maximize-best-checkpoint-metric would keep the worst"),
    ],
)
def test_refused(given, message):
    with pytest.raises(InputError) as refused:
        check_metric(training_arguments(*given))
    assert message in str(refused.value)


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
