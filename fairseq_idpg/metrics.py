"""Metrics that are logged, and those that choose the best checkpoint."""

from argparse import Namespace
from typing import Any

from preprocess.flags import flag_name
from preprocess.split_scores import METRICS as SPLIT_METRICS
from preprocess.split_scores import PARTS

from .errors import InputError

CRITERION = "sentence_prediction_idpg"
REPORT = "report_"  # with the name of a metric of preprocess/split_scores.py: the option that logs it
# metric of the best checkpoint -> the option that logs it; OURS: those that fairseq's criterion does not log
OURS = {part: REPORT + metric for metric, parts in PARTS.items() for part in parts}
METRICS = {
    **dict.fromkeys(("loss", "nll_loss", "accuracy"), None),
    **dict.fromkeys(("f1", "acc_and_f1"), "report_acc_and_f1"),
    "mcc": "report_mcc",
    **dict.fromkeys(("pearson", "spearman", "pearson_and_spearman"), "report_pearson_and_spearman"),
    **OURS,
}
LOSSES = ("loss", "nll_loss")  # the lowest is best; of all other metrics the highest


def reported(cfg: Any) -> list[str]:
    """Return the metrics of preprocess/split_scores.py that a criterion's options ask for."""
    return [metric for metric in SPLIT_METRICS if getattr(cfg, REPORT + metric, False)]


def check_metric(args: Namespace) -> None:
    """Raise InputError where the metric of the best checkpoint is not logged, or would keep the worst for the best."""
    metric = args.best_checkpoint_metric
    logged = [name for name, option in METRICS.items() if option is None or getattr(args, option, False)]
    if getattr(args, "regression_target", False):
        logged.remove("accuracy")
    if metric not in logged and args.criterion in ("sentence_prediction", CRITERION):
        option = METRICS.get(metric)
        remedy = f"give {flag_name(option)} (of --criterion {CRITERION}), or one of" if option else "give one of"
        raise InputError(f"--best-checkpoint-metric {metric} is not logged: {remedy} {', '.join(logged)}")
    highest = args.maximize_best_checkpoint_metric
    if metric in METRICS and highest == (metric in LOSSES):
        used, remedy = ("with", "leave that out") if highest else ("without", "give that too")
        raise InputError(
            f"--best-checkpoint-metric {metric} {used} --maximize-best-checkpoint-metric would keep the worst "
            f"checkpoint for the best: {remedy}"
        )
