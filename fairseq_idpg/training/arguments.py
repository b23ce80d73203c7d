"""Numbers and names on the command line that fairseq takes and that can only end badly."""

import math
import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.criterions.sentence_prediction import SentencePredictionCriterion
from fairseq.dataclass.configs import DistributedTrainingConfig, EMAConfig
from omegaconf import OmegaConf

from preprocess.flags import LARGEST_SEED, flag_name

from ..errors import InputError
from ..metrics import check_metric
from ..names import SECTIONS, TASK, TRAIN, as_typed
from ..optim.choices import PAIRS, check_optimization, literal, parse_pair

DEFAULTS = {f.name: f.default for section in SECTIONS for f in fields(section) if "${" not in str(f.default)}
# option -> its least value; with these values fairseq ends in a traceback, or trains nothing without a word
LEAST = {
    **dict.fromkeys(("lr", "weight_decay", "clip_norm", "adam_eps", "momentum", "num_workers", "warmup_updates"), 0),
    **dict.fromkeys(("seed", "max_epoch", "max_update", "init_token", "separator_token", "save_interval_updates"), 0),
    **dict.fromkeys(("batch_size", "batch_size_valid", "max_tokens", "max_tokens_valid", "update_freq"), 1),
    **dict.fromkeys(("save_interval", "validate_interval", "log_interval", "required_batch_size_multiple"), 1),
    **dict.fromkeys(("end_learning_rate", "lr_shrink"), 0),
    **dict.fromkeys(("total_num_update", "fp16_init_scale", "fp16_scale_window"), 1),
}
# options of which fairseq-train reads Python out of a text, as their defaults are those of others -> their kind
UNTYPED = {"max_tokens_valid": int, "batch_size_valid": int, "update_epoch_batch_itr": bool}
SHARDING = "frozen weights are not sharded, and the state of trained ones is small"
EMA = "the average would be of the frozen weights too, and training could not go on from a checkpoint"
PARTS_OF_A_MODEL = "this model is not divided among devices"
OF_SLOWMO = "it is for --ddp-backend slowmo, which is not supported"
PIPELINE = [f.name for f in fields(DistributedTrainingConfig) if f.name.startswith("pipeline_")]
# options of fairseq -> why nothing but their default is taken: with other values a training ends in a traceback, trains
# something else, or is the same without a word
UNSUPPORTED = {
    **dict.fromkeys(("zero_sharding", "cpu_offload", "use_sharded_state", "no_reshard_after_forward"), SHARDING),
    **dict.fromkeys(("fp32_reduce_scatter", "not_fsdp_flatten_parameters", "checkpoint_shard_count"), SHARDING),
    **dict.fromkeys(("slowmo_momentum", "slowmo_base_algorithm", "localsgd_frequency"), OF_SLOWMO),
    **dict.fromkeys((f.name for f in fields(EMAConfig) if f.name != "_name"), EMA),
    **dict.fromkeys(("model_parallel_size", *PIPELINE), PARTS_OF_A_MODEL),
    **dict.fromkeys(("num_shards", "shard_id", "max_valid_steps"), "training and validation read whole splits"),
    "update_ordered_indices_seed": "a training that goes on would draw other batches than one that was never stopped",
    "quantization_config_path": "it would change the frozen weights",
    "required_seq_len_multiple": "fairseq pads translations to it alone",
    "use_bmuf": "checkpoints do not hold its momentum, so that training could not go on from one",
    "use_plasma_view": "fairseq reads it for language models alone",
    "on_cpu_convert_precision": "it is for TPUs",
    "amp_init_scale": "fairseq begins with --fp16-init-scale",
    "amp_scale_window": "fairseq takes another number for it",
    "write_checkpoints_asynchronously": "a checkpoint must be whole before the next begins",
}
UNSUPPORTED_OF_TASK = {  # flags of fairseq's sentence_prediction
    "add_prev_output_tokens": "this model has no decoder",
    "d2v2_multi": "it names what a batch holds as data2vec reads it",
}
LAUNCHERS = ("MASTER_ADDR", "SLURM_JOB_ID")  # variables of what starts several processes: torchrun, Slurm
FOR_GPUS_ALONE = ("nccl", "c10d", "pytorch_ddp")
ON_CPUS = {"distributed_backend": "gloo", "ddp_backend": "legacy_ddp"}  # of several processes
BACKENDS = ("c10d", "pytorch_ddp", "no_c10d", "legacy_ddp")
# message with which fairseq ends where nobody else sees what is wrong -> our line
SAID_BY_FAIRSEQ = {
    "Cannot combine --fp16 and --tpu, use --bf16 on TPUs": "--fp16 with --bf16 or --tpu: a run has one precision: "
    "leave one out",
    "Cannot resume training due to dataloader mismatch, please report this to the fairseq developers. You can relaunch "
    "training with `--reset-dataloader` and it should work.": "the checkpoint to go on from stands in the middle of an "
    "epoch, after more batches than an epoch has now: give the --batch-size or --max-tokens, and the number of "
    "processes, that it was trained with, or another --save-dir",
}


def check_arguments(args: Namespace, gpu: bool | None = None) -> None:
    """Refuses them before anything is read or built.

    Args:
        gpu: whether the training will have one; None: where there is one now.

    Raises:
        InputError: naming the option, its value and the remedy.
    """
    if getattr(args, "task", None) != TASK:
        return
    for name, value in vars(args).items():
        value = _value_of(name, value)
        if isinstance(value, str) and (value == "???" or "${" in value):
            raise InputError(f"{flag_name(name)} {value}: omegaconf takes ??? and ${{ for its own: give another")
        for number in _numbers(value):
            if not math.isfinite(number):
                raise InputError(f"{flag_name(name)} {number} is no finite number: give one")
            if name in LEAST and number < LEAST[name]:
                raise InputError(f"{flag_name(name)} {number} is too small: give {LEAST[name]} or more")
            if name.endswith("dropout") and not 0 <= number < 1:
                raise InputError(f"{flag_name(name)} {number} is no share: give 0 or more, and less than 1")
    if args.seed > LARGEST_SEED:
        raise InputError(f"--seed {args.seed} is too large: give {LARGEST_SEED} or less")
    if not args.batch_size and not args.max_tokens:
        raise InputError("--batch-size is missing: give it, or --max-tokens")
    for option in PAIRS:
        if isinstance(getattr(args, option, None), str):
            parse_pair(option, getattr(args, option))
    if trains(args):
        check_optimization(args)
        if ":" in args.data:
            raise InputError(f"data folder {args.data}: fairseq-train ends its name at the colon: give it another")
    _check_supported(args)
    _check_criterion(args.criterion)
    check_metric(args)
    _check_precision(args)
    _check_gpu(args, not args.cpu and (torch.cuda.is_available() if gpu is None else gpu))


def check_configuration(cfg: Any) -> None:
    """``check_arguments`` for a training that hydra has composed, whose options stand in a section for each part."""
    # a part that declares no dataclass, such as --optimizer sgd, has all arguments for its section
    whole = {name: vars(part) if isinstance(part, Namespace) else part for name, part in cfg.items()}
    sections = {name: part for name, part in whole.items() if isinstance(part, dict) or OmegaConf.is_dict(part)}
    parts = {name: part["_name"] for name, part in sections.items() if "_name" in part}
    check_arguments(Namespace(**{key: value for part in sections.values() for key, value in part.items()} | parts))


def _value_of(name: str, value: Any) -> Any:
    """The value of an option, of those too whose text fairseq's parser leaves as it is."""
    if name not in UNTYPED or not isinstance(value, str):
        return value
    found = literal(value)
    if type(found) is UNTYPED[name]:
        return found
    kind = "neither True nor False: give one of them" if UNTYPED[name] is bool else "no whole number: give one"
    raise InputError(f"{flag_name(name)} {value:.80} is {kind}")


def _numbers(value: Any) -> list[float]:
    values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return [number for number in values if isinstance(number, (int, float)) and not isinstance(number, bool)]


def _check_supported(args: Namespace) -> None:
    for name, reason in UNSUPPORTED.items():
        if getattr(args, name, DEFAULTS[name]) != DEFAULTS[name]:
            raise InputError(f"{as_typed(args, name)} is not supported: {reason}: leave it out")
    _check_flags(args)
    _check_splits(args)
    if args.ddp_backend not in BACKENDS:
        remedy = "legacy_ddp" if args.cpu else "pytorch_ddp"
        raise InputError(f"{as_typed(args, 'ddp_backend')} is not supported: {SHARDING}: give {remedy}")
    if args.tpu and not args.bf16:
        raise InputError("--tpu is not supported: leave it out")


def _check_splits(args: Namespace) -> None:
    if not args.train_subset.startswith(TRAIN):
        raise InputError(
            f"--train-subset {args.train_subset} is not taken for training: give a name that begins with {TRAIN}"
        )
    splits = args.valid_subset.split(",")
    if not all(splits):
        raise InputError(f"--valid-subset {args.valid_subset!r} has an empty name in it: give valid, or valid,test")
    for split in splits if trains(args) else ():
        if split.startswith(TRAIN):  # fairseq has one iterator of a split: a validation would use its batches up
            raise InputError(
                f"--valid-subset {args.valid_subset} is not supported: {split} is read as training examples: leave it "
                f"out, and ask fairseq-validate --valid-subset {split} afterwards"
            )
    if trains(args) and args.shorten_data_split_list and str(args.shorten_method) == "none":
        raise InputError(
            f"{as_typed(args, 'shorten_data_split_list')} has no effect with --shorten-method none: leave it out or "
            "give --shorten-method truncate"
        )
    if args.combine_valid_subsets and not trains(args):
        raise InputError(
            "--combine-valid-subsets has no effect here: fairseq-validate scores each --valid-subset by itself: leave "
            "it out"
        )
    if args.combine_valid_subsets and args.valid_subset != DEFAULTS["valid_subset"]:
        raise InputError(
            f"--combine-valid-subsets with --valid-subset {args.valid_subset}: valid, valid1 ... are joined, and no "
            "others are read: leave one of them out"
        )


def trains(args: Namespace) -> bool:
    """Whether they are of a training: others name what was trained."""
    return getattr(args, "path", None) is None and hasattr(args, "stop_min_lr")


def _check_flags(cfg: Any) -> None:
    for name, reason in UNSUPPORTED_OF_TASK.items():
        if getattr(cfg, name, False):
            raise InputError(f"{flag_name(name)} is not supported: {reason}: leave it out")


def _check_criterion(name: str) -> None:
    own = CRITERION_REGISTRY.get(TASK, SentencePredictionCriterion)
    if name == "sentence_prediction" or issubclass(CRITERION_REGISTRY.get(name, object), own):
        return
    raise InputError(f"--criterion {name} does not fit --task {TASK}: give --criterion sentence_prediction or {TASK}")


def _check_precision(args: Namespace) -> None:
    """fairseq takes what it likes of several, and validates in float32 whatever it is told besides --fp16."""
    chosen = [flag_name(name) for name in ("fp16", "bf16", "amp") if getattr(args, name)]
    if len(chosen) > 1:
        raise InputError(f"{chosen[0]} with {chosen[1]}: a run has one precision: leave one out")
    if chosen not in ([], ["--fp16"]) and not trains(args):
        raise InputError(
            f"{chosen[0]} has no effect here: fairseq-validate computes in float32, or with --fp16 in float16: leave "
            "it out"
        )


def _check_gpu(args: Namespace, gpu: bool) -> None:
    """In training, fairseq puts the float32 copies of all weights into one tensor, which it makes on a GPU."""
    if args.profile and not gpu:
        raise InputError("--profile marks what a GPU does, and there is none: leave it out")
    flat = args.fp16 and not (args.fp16_no_flatten_grads or args.memory_efficient_fp16)
    if trains(args) and flat and not gpu:
        where = "with --cpu" if args.cpu else "without a GPU"
        raise InputError(f"--fp16 {where}: give --fp16-no-flatten-grads as well, or leave it out")
    size, gpus = args.distributed_world_size, torch.cuda.device_count()
    alone = args.distributed_init_method is None and not any(name in os.environ for name in LAUNCHERS)
    if size > max(gpus, 1) and alone:  # fairseq starts a process for each GPU, and no others
        raise InputError(
            f"--distributed-world-size {size} with {gpus} GPUs on this machine: give less, or start each process "
            "yourself with --distributed-init-method and --distributed-rank (benchmarks/README.md, Several processes)"
        )
    for name, remedy in ON_CPUS.items() if trains(args) and size > 1 and not gpu else ():
        if getattr(args, name) in FOR_GPUS_ALONE:
            raise InputError(
                f"{as_typed(args, name)} of {size} processes is for GPUs alone: give {flag_name(name)} {remedy}, or "
                "--distributed-world-size 1"
            )
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if trains(args) and size == 1 < started and args.distributed_init_method is None:
        raise InputError(
            f"--distributed-world-size 1 in one of {started} processes that torchrun started: each would train by "
            f"itself: give {started}"
        )
