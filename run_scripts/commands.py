"""The fairseq-train command of an experiment, with the paper's settings (Table 4 and the released scripts)."""

from __future__ import annotations

from pathlib import Path
from typing import Iterable

from fairseq_idpg.registry import find_method
from preprocess.split_facts import count_examples
from preprocess.tasks import WARM_UP, WHOLE_MODEL

from .experiment import Experiment
from .records import RunError
from .splits import Splits

ROOT = Path(__file__).resolve().parents[1]
REPORTS = {
    "acc_and_f1": ["--report-acc-and-f1"],
    "pearson_and_spearman": ["--report-pearson-and-spearman"],
    "mcc": ["--report-mcc"],
}
VALID_BATCH = 64
# Options of fairseq-train that are set here -> what sets them, as an option of train.py and a key of a sweep.
RESERVED = {
    **{f"--{name.replace('_', '-')}": name for name in ("backbone", "arch", "batch_size", "max_epoch", "max_update")},
    **{"--method": "rows", "--lr": "lrs", "--seed": "seeds", "--prompt-position": "positions"},
    **{"--total-batch-size": "batch_size", "--valid-subset": "selection", "--save-dir": "--results"},
    **{"--prompt-init-from": "init_prompts_from", "--head-init-from": "init_head_from"},
    **{"--restore-file": "backbone", "--swap-pairs": "supplementary"},
    **dict.fromkeys(("--user-dir", "--task", "--criterion", "--num-classes", "--regression-target"), "the task"),
}
CHANGE_REPRESENTATIONS = {"--representation-dropout", "--no-freeze-backbone", "--train-layer-norms", "random_crop"}


def check_options(options: Iterable[str]) -> None:
    """Refuses options that this module gives itself.

    Raises:
        RunError: naming the option, and what to give instead.
    """
    for option in options:
        name = option.partition("=")[0]
        if name in RESERVED:
            raise RunError(f"{name} is set by {RESERVED[name]}: leave it out of the options of fairseq-train")


def trains_whole_model(experiment: Experiment) -> bool:
    return experiment.supplementary or find_method(experiment.method).trains_backbone


def learning_rates(experiment: Experiment) -> tuple[float, ...]:
    """The grid that the paper searches."""
    if find_method(experiment.method).trains_backbone and not experiment.supplementary:
        return WHOLE_MODEL.learning_rates
    return experiment.settings.learning_rates


def cache_of(experiment: Experiment, results: Path) -> Path | None:
    """Where M(x) is kept for all runs; None where it changes during training."""
    changes = CHANGE_REPRESENTATIONS.intersection(experiment.options)
    trains_norms = str(find_method(experiment.method).defaults.get("train_layer_norms")) == "true"
    return None if trains_whole_model(experiment) or changes or trains_norms else results / "cache"


def training_command(experiment: Experiment, splits: Splits, folder: Path, cache: Path | None) -> list[str]:
    """The experiment as fairseq-train in ``folder``; M(x) is kept in ``cache``."""
    return [
        *("fairseq-train", str(splits.folder.path), "--user-dir", str(ROOT / "fairseq_idpg")),
        *("--task", "sentence_prediction_idpg", "--criterion", "sentence_prediction_idpg"),
        *("--init-token", "0", "--separator-token", "2", "--max-positions", "512", "--shorten-method", "truncate"),
        *("--prompt-position", str(experiment.prompt_position), "--valid-subset", splits.dev),
        *("--arch", experiment.arch, "--backbone", experiment.backbone, "--method", experiment.method),
        *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-6", "--weight-decay", "0.1"),
        *("--clip-norm", "0.0", "--dropout", "0.1", "--attention-dropout", "0.1", "--lr", repr(experiment.lr)),
        *schedule(experiment, splits),
        *("--best-checkpoint-metric", experiment.facts.metric, "--maximize-best-checkpoint-metric"),
        *(*REPORTS.get(experiment.facts.metric, []), "--no-epoch-checkpoints", "--save-dir", str(folder)),
        *("--seed", str(experiment.seed), "--log-format", "json", "--num-workers", "0"),
        *classes(splits),
        *starts(experiment),
        *(["--no-freeze-backbone", "--swap-pairs", "append"] if experiment.supplementary else []),
        *(["--representation-cache", str(cache)] if cache else []),
        *experiment.options,
    ]


def classes(splits: Splits) -> list[str]:
    if splits.folder.regression:
        return ["--regression-target", "--num-classes", "1"]
    return ["--num-classes", str(len(splits.folder.label_names))]


def starts(experiment: Experiment) -> Iterable[str]:
    if experiment.init_prompts_from:
        yield from ("--prompt-init", "saved", "--prompt-init-from", experiment.init_prompts_from)
    if experiment.init_head_from:
        yield from ("--head-init-from", experiment.init_head_from)


def schedule(experiment: Experiment, splits: Splits) -> list[str]:
    """Batches, length and learning rate: fixed for prompts and adapters, rising and falling for whole models."""
    whole, paper = trains_whole_model(experiment), experiment.settings
    batch = experiment.batch_size or paper.batch_size
    # a run that counts updates makes as many epochs as it takes
    fine_tuned = whole and not experiment.supplementary
    epochs = experiment.max_epoch or (WHOLE_MODEL if fine_tuned else paper).max_epoch
    limits = ["--max-epoch", str(epochs)] if experiment.max_epoch or not experiment.max_update else []
    if experiment.max_update:
        limits += ["--max-update", str(experiment.max_update)]
    sizes = ["--total-batch-size", str(batch), "--batch-size", str(batch), "--batch-size-valid", str(VALID_BATCH)]
    if not whole:
        return [*sizes, *limits, "--lr-scheduler", "fixed"]
    examples = count_examples(splits.folder, "train") * (2 if experiment.supplementary else 1)
    updates = -(-examples // batch) * epochs
    updates = experiment.max_update if "--max-epoch" not in limits else min(updates, experiment.max_update or updates)
    warm_up = ["--total-num-update", str(updates), "--warmup-updates", str(round(WARM_UP * updates))]
    return [*sizes, *limits, "--lr-scheduler", "polynomial_decay", *warm_up]
