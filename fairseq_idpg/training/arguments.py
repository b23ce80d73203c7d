"""Options of fairseq with which a training would be another than the one that was asked for."""

import os
from argparse import Namespace
from typing import Any

import torch
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.criterions.sentence_prediction import SentencePredictionCriterion
from fairseq.dataclass.configs import DatasetConfig
from omegaconf import OmegaConf

from preprocess.flags import flag_name

from ..errors import InputError
from ..metrics import check_metric
from ..names import TASK, TRAIN
from .overrides import PAIRS, parse_pair


def check_arguments(args: Namespace, gpu: bool | None = None) -> None:
    """Check them before anything is read or built.

    Args:
        gpu: whether the training will have one; None: where there is one now.

    Raises:
        InputError: naming the option, its value and the remedy.
    """
    if getattr(args, "task", None) != TASK:
        return
    if not args.batch_size and not args.max_tokens:
        raise InputError("--batch-size is missing: give it, or --max-tokens")
    for option in PAIRS:
        if isinstance(getattr(args, option, None), str):
            parse_pair(option, getattr(args, option))
    _check_criterion(args.criterion)
    if trains(args):
        check_metric(args)
        _check_optimization(args)
        _check_splits(args)
        _check_processes(args, not args.cpu and (torch.cuda.is_available() if gpu is None else gpu))


def check_configuration(cfg: Any) -> None:
    """``check_arguments`` for a training that hydra has composed, whose options stand in a section for each part."""
    # a part that declares no dataclass, such as --optimizer sgd, has all arguments for its section
    whole = {name: vars(part) if isinstance(part, Namespace) else part for name, part in cfg.items()}
    sections = {name: part for name, part in whole.items() if isinstance(part, dict) or OmegaConf.is_dict(part)}
    parts = {name: part["_name"] for name, part in sections.items() if "_name" in part}
    check_arguments(Namespace(**{key: value for part in sections.values() for key, value in part.items()} | parts))


def trains(args: Namespace) -> bool:
    """Return whether they are of a training: others name what was trained."""
    return getattr(args, "path", None) is None and hasattr(args, "stop_min_lr")


def _check_criterion(name: str) -> None:
    own = CRITERION_REGISTRY.get(TASK, SentencePredictionCriterion)
    if name != "sentence_prediction" and not issubclass(CRITERION_REGISTRY.get(name, object), own):
        raise InputError(
            f"--criterion {name} does not fit --task {TASK}: give --criterion sentence_prediction or {TASK}"
        )


def _check_optimization(args: Namespace) -> None:
    if getattr(args, "optimizer", None) is None:
        raise InputError("--optimizer is missing: give adam, or grouped_adam for two learning rates")
    if args.lr_scheduler == "polynomial_decay" and args.total_num_update is None:
        raise InputError("--total-num-update is missing, over which the rate decays: give as many as --max-update")
    # fairseq takes one of several, which one its messages do not say
    precisions = [flag_name(name) for name in ("fp16", "bf16", "amp") if getattr(args, name)]
    if len(precisions) > 1:
        raise InputError(f"{precisions[0]} with {precisions[1]}: a run has one precision: leave one out")


def _check_splits(args: Namespace) -> None:
    if ":" in args.data:
        raise InputError(f"data folder {args.data}: fairseq-train ends its name at the colon: give it another")
    if not args.train_subset.startswith(TRAIN):
        raise InputError(
            f"--train-subset {args.train_subset} is not taken for training: give a name that begins with {TRAIN}"
        )
    # fairseq has one iterator of a split: a validation would use up the batches of the training
    training = [split for split in args.valid_subset.split(",") if split.startswith(TRAIN)]
    if training:
        raise InputError(
            f"--valid-subset {args.valid_subset} is not supported: {training[0]} is read as training examples: leave "
            f"it out, and ask fairseq-validate --valid-subset {training[0]} afterwards"
        )
    if args.combine_valid_subsets and args.valid_subset != DatasetConfig.valid_subset:
        raise InputError(
            f"--combine-valid-subsets with --valid-subset {args.valid_subset}: valid, valid1 ... are joined, and no "
            "others are read: leave one of them out"
        )


def _check_processes(args: Namespace, gpu: bool) -> None:
    # fairseq puts the float32 copies of all weights into one tensor, which it makes on a GPU
    if args.fp16 and not (gpu or args.fp16_no_flatten_grads or args.memory_efficient_fp16):
        where = "with --cpu" if args.cpu else "without a GPU"
        raise InputError(f"--fp16 {where}: give --fp16-no-flatten-grads as well, or leave it out")
    # one is fairseq's default on a node with one GPU
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if args.distributed_world_size == 1 < started and args.distributed_init_method is None:
        raise InputError(
            f"--distributed-world-size 1 in one of {started} processes that torchrun started: each would train by "
            f"itself: give {started}"
        )
