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
    """Refuses what the best checkpoint cannot be chosen by; fairseq misses it after the first epoch.

    Raises:
        InputError: the metric is unknown, not logged, or not of this task; the worst checkpoint would be kept.
    """
    metric, own = getattr(args, "best_checkpoint_metric", "loss"), args.criterion in ("sentence_prediction", CRITERION)
    if metric not in METRICS and own:
        raise InputError(f"--best-checkpoint-metric {metric} is unknown: give one of {', '.join(METRICS)}")
    if metric in OURS and args.criterion == "sentence_prediction":
        raise InputError(f"--best-checkpoint-metric {metric} is none of this --criterion: give --criterion {CRITERION}")
    if (needed := METRICS.get(metric)) and not getattr(args, needed, True):
        raise InputError(f"--best-checkpoint-metric {metric} needs {flag_name(needed)}: give it too")
    if metric == "accuracy" and args.regression_target:
        raise InputError("--best-checkpoint-metric accuracy with --regression-target: give loss or spearman")
    highest = getattr(args, "maximize_best_checkpoint_metric", False)
    if metric in METRICS and highest == (metric in LOSSES):
        found, remedy = ("with", "leave that out") if highest else ("without", "give that too")
        raise InputError(
            f"--best-checkpoint-metric {metric} {found} --maximize-best-checkpoint-metric would keep the worst "
            f"checkpoint for the best: {remedy}"
        )
