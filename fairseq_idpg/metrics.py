"""Metrics that are logged, and those that choose the best checkpoint."""

from argparse import Namespace
from typing import Any

from preprocess.flags import flag_name
from preprocess.split_scores import METRICS as SPLIT_METRICS
from preprocess.split_scores import PARTS

from .errors import InputError

CRITERION = "sentence_prediction_idpg"
REPORT = "report_"  # and a metric of preprocess/split_scores.py: the option that has it logged
# metric of the best checkpoint -> what has it logged; OURS: those that fairseq's criterion does not log
OURS = {part: REPORT + metric for metric, parts in PARTS.items() for part in parts}
METRICS = {
    **dict.fromkeys(("loss", "nll_loss", "accuracy"), None),
    **dict.fromkeys(("f1", "acc_and_f1"), "report_acc_and_f1"),
    "mcc": "report_mcc",
    **dict.fromkeys(("pearson", "spearman", "pearson_and_spearman"), "report_pearson_and_spearman"),
    **OURS,
}
LOSSES = ("loss", "nll_loss")  # of which the lowest is best; of all others the highest


def reported(cfg: Any) -> list[str]:
    """The metrics of preprocess/split_scores.py that a criterion's options ask for."""
    return [metric for metric in SPLIT_METRICS if getattr(cfg, REPORT + metric, False)]


def check_metric(args: Namespace) -> None:
    """Refuse what the best checkpoint cannot be chosen by; fairseq misses it after the first epoch.

    Raises:
        InputError: the metric is not logged, or the worst checkpoint would be kept.
    """
    metric, criterion = getattr(args, "best_checkpoint_metric", "loss"), args.criterion
    remedy = None
    if metric not in METRICS and criterion in ("sentence_prediction", CRITERION):
        remedy = f"give one of {', '.join(METRICS)}"
    elif metric in OURS and criterion == "sentence_prediction":
        remedy = f"give --criterion {CRITERION}"
    elif (needed := METRICS.get(metric)) and not getattr(args, needed, True):
        remedy = f"give {flag_name(needed)} too"
    elif metric == "accuracy" and args.regression_target:
        remedy = "with --regression-target give loss or spearman"
    if remedy is not None:
        raise InputError(f"--best-checkpoint-metric {metric} is unknown: {remedy}")
    highest = getattr(args, "maximize_best_checkpoint_metric", False)
    if metric in METRICS and highest == (metric in LOSSES):
        found, remedy = ("with", "leave that out") if highest else ("without", "give that too")
        raise InputError(
            f"--best-checkpoint-metric {metric} {found} --maximize-best-checkpoint-metric would keep the worst "
            f"checkpoint for the best: {remedy}"
        )
