"""The fairseq-train command of an experiment, with the paper's settings (Table 4 and the released scripts)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Iterable

from fairseq_idpg.methods.registry import find_preset
from preprocess.split_facts import count_examples
from preprocess.tasks import WARM_UP, WHOLE_MODEL, Settings

from .batches import batches_of_epoch, given, sizes
from .experiment import Experiment
from .options import architecture, checked
from .splits import Splits

ROOT = Path(__file__).resolve().parents[2]
REPORTS = {
    "acc_and_f1": ["--report-acc-and-f1"],
    "pearson_and_spearman": ["--report-pearson-and-spearman"],
    "mcc": ["--report-mcc"],
}
FEW_SHOT_INPUT = ("--representation", "backbone")
FP16 = ("--fp16-init-scale", "4", "--threshold-loss-scale", "1", "--fp16-scale-window", "128")
CHANGE_REPRESENTATIONS = {"--representation-dropout", "--no-freeze-backbone", "--train-layer-norms", "random_crop"}


def trains_whole_model(experiment: Experiment) -> bool:
    return experiment.supplementary or find_preset(experiment.method).trains_backbone


def settings_of(experiment: Experiment) -> Settings:
    """How the experiment is trained: whole models as RoBERTa's authors train them, all else as the paper says."""
    if find_preset(experiment.method).trains_backbone and not experiment.supplementary:
        return WHOLE_MODEL[experiment.size]
    return experiment.settings


def learning_rates(experiment: Experiment) -> tuple[float, ...]:
    """The grid that the paper searches."""
    return settings_of(experiment).learning_rates


def with_few_shot_input(experiment: Experiment) -> Experiment:
    """With K examples all of the authors' scripts feed M(x) to every layer of M-IDPG, not the previous layer's state.

    It becomes an option of the experiment, so records and reports show it; a --representation that is given stays.
    """
    usual = str(find_preset(experiment.method).defaults.get("representation"))
    if experiment.k is None or usual != "previous-layer" or given(experiment, "--representation"):
        return experiment
    return replace(experiment, options=(*experiment.options, *FEW_SHOT_INPUT))


def cache_of(experiment: Experiment, results: Path) -> Path | None:
    """Where M(x) is kept for all runs; None where it changes during training."""
    changes = CHANGE_REPRESENTATIONS.intersection(experiment.options)
    trains_norms = str(find_preset(experiment.method).defaults.get("train_layer_norms")) == "true"
    return None if trains_whole_model(experiment) or changes or trains_norms else results / "cache"


def training_command(experiment: Experiment, splits: Splits, folder: Path, cache: Path | None) -> list[str]:
    """The experiment as fairseq-train in ``folder``; M(x) is kept in ``cache``."""
    return [
        *("fairseq-train", str(splits.folder.path), "--user-dir", str(ROOT / "fairseq_idpg")),
        *("--task", "sentence_prediction_idpg", "--criterion", "sentence_prediction_idpg"),
        *("--init-token", "0", "--separator-token", "2", "--max-positions", "512", "--shorten-method", "truncate"),
        *("--prompt-position", str(experiment.prompt_position), "--valid-subset", splits.dev),
        *("--arch", architecture(experiment.arch, "arch"), "--method", experiment.method),
        *("--backbone", experiment.backbone, "--clip-norm", "0.0", "--lr", repr(experiment.lr)),
        *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-6", "--weight-decay", "0.1"),
        *("--dropout", "0.1", "--attention-dropout", "0.1"),
        *schedule(experiment, splits),
        *(*chosen_by(experiment), *REPORTS.get(experiment.facts.metric, [])),
        *("--no-epoch-checkpoints", "--save-dir", str(folder)),
        *("--seed", str(experiment.seed), "--log-format", "json", "--num-workers", "0"),
        *classes(splits),
        *starts(experiment),
        *(["--no-freeze-backbone", "--swap-pairs", "append"] if experiment.supplementary else []),
        *(["--representation-cache", str(cache)] if cache else []),
        *precision(experiment),
        *checked(experiment.options),
    ]


def chosen_by(experiment: Experiment) -> list[str]:
    """What chooses the checkpoint: the score that is reported, or with ``selection: paper`` what the authors' scripts
    choose by, which is the accuracy also where F1 is reported, and the loss for scores."""
    metric = experiment.facts.metric
    if experiment.selection == "paper":
        if experiment.facts.regression:
            return ["--best-checkpoint-metric", "loss"]
        metric = "accuracy" if metric == "acc_and_f1" else metric
    return ["--best-checkpoint-metric", metric, "--maximize-best-checkpoint-metric"]


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
    """Batches, length and learning rate: fixed for prompts and adapters, rising and falling for whole models.

    Whole models make all their epochs. For all else the authors' scripts also limit the updates, to as many as batches
    of full size would make: on RTE, whose long examples make more, training ends after 38 of the 50 epochs.
    """
    settings = settings_of(experiment)
    batch, epochs = experiment.batch_size or settings.batch_size, experiment.max_epoch or settings.max_epoch
    # a run that counts updates makes as many epochs as it takes
    limits = ["--max-epoch", str(epochs)] if experiment.max_epoch or not experiment.max_update else []
    most = experiment.max_update
    if not (trains_whole_model(experiment) or experiment.max_epoch or experiment.max_update):
        most = -(-count_examples(splits.folder, "train") * epochs // batch)
    limits += ["--max-update", str(most)] if most else []
    if not trains_whole_model(experiment):
        return [*sizes(batch), *limits, "--lr-scheduler", "fixed"]
    updates = batches_of_epoch(experiment, splits.folder, batch) * epochs
    updates = most if "--max-epoch" not in limits else min(updates, most or updates)
    warm_up = ["--total-num-update", str(updates), "--warmup-updates", str(round(WARM_UP * updates))]
    return [*sizes(batch), *limits, "--lr-scheduler", "polynomial_decay", *warm_up]


def precision(experiment: Experiment) -> tuple[str, ...]:
    """With --fp16 the loss scale of the authors' scripts."""
    return FP16 if {"--fp16", "--memory-efficient-fp16"}.intersection(experiment.options) else ()
