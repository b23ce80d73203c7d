"""The fairseq-train command of an experiment, with the paper's settings (Table 4 and the released scripts).

The authors' scripts fill a batch with examples in a random order until it holds ``batch`` of them, or 4,400 tokens
with the padding, as those for RoBERTa (fairseq, examples/roberta/README.glue.md). Every fourth batch of RTE is smaller.
The tokens are those of the text without prompts, so all methods see the same batches.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
from fairseq.data.data_utils import batch_by_size

from fairseq_idpg.count import count_preset
from fairseq_idpg.methods.prompts.base import LATE, PREFIX
from fairseq_idpg.methods.registry import find_preset
from fairseq_idpg.metrics import LOSSES
from fairseq_idpg.models.config import fill_method_options, open_options
from fairseq_idpg.tasks.dataset import grouped_by_length
from fairseq_idpg.tasks.positions import prompt_block
from preprocess.data_folder import DataFolder, check_split
from preprocess.errors import InputError
from preprocess.tasks import MAX_POSITIONS, WARM_UP, WHOLE_MODEL, Settings

from .. import ROOT
from .experiment import MAX_TOKENS, Experiment, Splits
from .options import checked
from .records import BEST_CHECKPOINT

VALID_BATCH = 64
DECAY = "polynomial_decay"
FEW_SHOT_INPUT = ("--representation", "backbone")
ADAM = ("--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-6")
FP16 = ("--fp16-init-scale", "4", "--threshold-loss-scale", "1", "--fp16-scale-window", "128")
CHANGE_REPRESENTATIONS = {
    *("--representation-dropout", "--representation-trained", "--no-freeze-backbone", "--train-layer-norms"),
    "random_crop",
}


def trains_whole_model(experiment: Experiment) -> bool:
    return experiment.supplementary or find_preset(experiment.method).trains_backbone


def settings_of(experiment: Experiment) -> Settings:
    """Return the settings of RoBERTa's authors for whole models, and the paper's for all else."""
    if find_preset(experiment.method).trains_backbone and not experiment.supplementary:
        return WHOLE_MODEL[experiment.size]
    return experiment.settings


def learning_rates(experiment: Experiment) -> tuple[float, ...]:
    """Return the grid that the paper searches."""
    return settings_of(experiment).learning_rates


def with_few_shot_input(experiment: Experiment) -> Experiment:
    """Return the experiment with M(x) fed to every layer of M-IDPG, as in all of the authors' scripts with K examples.

    It becomes an option, which records and reports show. An explicit --representation stays.
    """
    usual = find_preset(experiment.method).defaults.get("representation")
    if experiment.k is None or usual != "previous-layer" or option_value(experiment, "--representation"):
        return experiment
    return replace(experiment, options=(*experiment.options, *FEW_SHOT_INPUT))


def cache_of(experiment: Experiment, results: Path) -> Path | None:
    """Return the folder of M(x) of all runs; None where M(x) changes during training."""
    changes = CHANGE_REPRESENTATIONS.intersection(part for word in experiment.options for part in word.split("="))
    trained = count_preset("roberta_idpg_base", experiment.method).of_backbone  # in any size of backbone, if in one
    return None if experiment.supplementary or changes or trained else results / "cache"


def training_command(experiment: Experiment, splits: Splits, folder: Path, cache: Path | None) -> list[str]:
    """Return the command of fairseq-train that makes the experiment in ``folder``, with M(x) in ``cache``."""
    metric, optimizer = experiment.facts.metric, option_value(experiment, "--optimizer") or "adam"
    start, head = experiment.init_prompts_from, experiment.init_head_from
    source = source_checkpoint(experiment, folder)
    return [
        *("fairseq-train", str(splits.folder.path), "--user-dir", str(ROOT / "fairseq_idpg")),
        *("--task", "sentence_prediction_idpg", "--criterion", "sentence_prediction_idpg"),
        *("--init-token", "0", "--separator-token", "2"),
        *("--max-positions", str(MAX_POSITIONS), "--shorten-method", "truncate"),
        *("--prompt-position", str(experiment.prompt_position), "--valid-subset", splits.dev),
        *("--arch", experiment.arch, "--method", experiment.method),
        *("--backbone", experiment.backbone, "--clip-norm", "0.0", "--lr", repr(experiment.lr)),
        # Another optimizer has its own options; the weight decay is one of all optimizers.
        *("--optimizer", "adam", *(ADAM if optimizer.endswith("adam") else ()), "--weight-decay", "0.1"),
        *("--dropout", "0.1", "--attention-dropout", "0.1"),
        *schedule_options(experiment, splits),
        *selection_options(experiment),
        *([f"--report-{metric.replace('_', '-')}"] if metric != "accuracy" else []),
        *("--no-epoch-checkpoints", "--save-dir", str(folder)),
        *("--seed", str(experiment.seed), "--log-format", "json", "--num-workers", "0"),
        *(["--regression-target"] if splits.folder.regression else []),
        *("--num-classes", "1" if splits.folder.regression else str(len(splits.folder.label_names))),
        *(["--finetune-from-model", str(source)] if experiment.source_run else []),
        *(["--prompt-init", "saved", "--prompt-init-from", start] if start else []),
        *(["--head-init-from", head] if head else []),
        *(["--no-freeze-backbone", "--swap-pairs", "append"] if experiment.supplementary else []),
        *(["--representation-cache", str(cache)] if cache else []),
        *(FP16 if {"--fp16", "--memory-efficient-fp16"}.intersection(experiment.options) else ()),
        *checked(experiment.options),
    ]


def source_checkpoint(experiment: Experiment, folder: Path) -> Path:
    """Return the checkpoint that the experiment starts from, of a run beside ``folder``."""
    return folder.parent / str(experiment.source_run) / BEST_CHECKPOINT


def selection_options(experiment: Experiment) -> list[str]:
    """Return the options that choose the checkpoint: by the score that is reported, or as the authors' scripts.

    These (``selection: paper``) take the accuracy even where F1 is reported, and the loss of a regression. Raises
    InputError where an option names a metric whose lowest value is best.
    """
    metric = experiment.facts.metric
    if experiment.selection == "paper":
        if experiment.facts.regression:
            return ["--best-checkpoint-metric", "loss"]
        metric = "accuracy" if metric == "acc_and_f1" else metric
    chosen = option_value(experiment, "--best-checkpoint-metric")
    if chosen in LOSSES:
        raise InputError(f"--best-checkpoint-metric {chosen}: its lowest value is best: name a score, or leave it out")
    return ["--best-checkpoint-metric", metric, "--maximize-best-checkpoint-metric"]


def schedule_options(experiment: Experiment, splits: Splits) -> list[str]:
    """Return the options of batches, length and learning rate.

    The rate is fixed for prompts and adapters; for whole models, and with ``warm_up``, it rises and falls, and another
    --lr-scheduler is refused. Whole models make all their epochs. All else makes at most as many updates as batches of
    full size would, as in the authors' scripts: on RTE, with its long examples, training ends after 38 of 50 epochs.
    """
    settings = settings_of(experiment)
    batch, epochs = experiment.batch_size or settings.batch_size, experiment.max_epoch or settings.max_epoch
    # --max-update alone does not limit the epochs.
    limits = ["--max-epoch", str(epochs)] if experiment.max_epoch or not experiment.max_update else []
    most = experiment.max_update
    if not (trains_whole_model(experiment) or experiment.max_epoch or experiment.max_update):
        most = -(-check_split(splits.folder, "train") * epochs // batch)
    options = [
        *("--total-batch-size", str(batch), "--batch-size", str(batch), "--max-tokens", str(MAX_TOKENS)),
        *("--required-batch-size-multiple", "1"),
        # The batches of validation change no score, and so are not limited in tokens.
        *("--batch-size-valid", str(VALID_BATCH), "--max-tokens-valid", str(VALID_BATCH * MAX_POSITIONS)),
        *(*limits, *(["--max-update", str(most)] if most else [])),
    ]
    scheduler = option_value(experiment, "--lr-scheduler") or DECAY
    if scheduler != DECAY and experiment.warm_up is not None:
        raise InputError(f"warm_up {experiment.warm_up} needs --lr-scheduler {DECAY}, not {scheduler}: leave one out")
    if scheduler != DECAY or not trains_whole_model(experiment) and experiment.warm_up is None:
        return [*options, "--lr-scheduler", "fixed"]
    rising = WARM_UP if experiment.warm_up is None else experiment.warm_up
    updates = batches_of_epoch(experiment, splits.folder, batch) * epochs
    if most:
        updates = min(updates, most) if limits else most
    warm_up = ["--total-num-update", str(updates), "--warmup-updates", str(round(rising * updates))]
    return [*options, "--lr-scheduler", DECAY, *warm_up]


def option_value(experiment: Experiment, name: str) -> str | None:
    """Return the last value of an option in the experiment's further options, or None."""
    words, value = experiment.options, None
    for at, word in enumerate(words):
        option, equals, after = word.partition("=")
        if option == name:
            value = after if equals else words[at + 1] if at + 1 < len(words) else None
    return value


def batches_of_epoch(experiment: Experiment, folder: DataFolder, batch: int) -> int:
    """Count the batches of an epoch as fairseq makes them in one process with the experiment's seed."""
    lengths = sum(folder.rows(part, "train").lengths.astype(np.int64) + 1 for part in folder.inputs)  # <s> or </s>
    longest = int(option_value(experiment, "--max-positions") or MAX_POSITIONS) - prompt_rows(experiment)
    tokens = np.minimum(np.tile(lengths, 2 if experiment.supplementary else 1), longest)
    order = np.random.RandomState(experiment.seed).permutation(len(tokens))
    if not experiment.supplementary:  # fairseq's task sorts by the permutation; with swapped pairs, ours applies it
        order = np.argsort(order)
    if "--no-shuffle" in experiment.options:
        order = np.arange(len(tokens))
    if "--group-by-length" in experiment.options:
        order = grouped_by_length(order, tokens)
    most = int(option_value(experiment, "--max-tokens") or MAX_TOKENS)
    return len(batch_by_size(order, None, tokens[order].astype(np.int64), most, batch))


def prompt_rows(experiment: Experiment) -> int:
    """Count the positions of an example that the prompt takes from its text, with the separators around it."""
    args = open_options(method=experiment.method, prompt_insertion=option_value(experiment, "--prompt-insertion"))
    fill_method_options(args)
    if args.prompt_insertion is None or str(args.prompt_insertion) in (*PREFIX, LATE):
        return 0
    length = int(option_value(experiment, "--prompt-length") or args.prompt_length)
    return len(prompt_block(experiment.prompt_position, length, placeholder=0, separator=0))
