"""Metrics that choose the best checkpoint."""

import pytest

from fairseq_idpg.errors import InputError
from fairseq_idpg.metrics import check_metric
from tests.folders import training_arguments

METRIC = "--best-checkpoint-metric"
OURS = ["--criterion", "sentence_prediction_idpg"]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([METRIC, "nothing"], f"{METRIC} nothing"),
        ([METRIC, "f1"], "--report-acc-and-f1"),
        ([METRIC, "em"], "--criterion sentence_prediction_idpg"),
        ([METRIC, "em", *OURS], "--report-f1a-and-em"),
        (["--regression-target"], f"{METRIC} accuracy"),
        ([], None),
        ([METRIC, "em", "--report-f1a-and-em", *OURS], None),
        (["--criterion", "masked_lm", METRIC, "perplexity"], None),  # another criterion has metrics of its own
    ],
)
def test_what_is_not_logged_is_refused(given, named):
    args = training_arguments(*given)
    if named is None:
        return check_metric(args)
    with pytest.raises(InputError, match=named):
        check_metric(args)


@pytest.mark.parametrize(("metric", "highest"), [("accuracy", True), ("loss", False), ("nll_loss", False)])
def test_the_checkpoint_that_is_kept_is_the_best(metric, highest):
    args = training_arguments()
    args.best_checkpoint_metric, args.maximize_best_checkpoint_metric = metric, highest
    check_metric(args)
    args.maximize_best_checkpoint_metric = not highest
    with pytest.raises(InputError, match=f"{METRIC} {metric} .*--maximize-best-checkpoint-metric"):
        check_metric(args)
