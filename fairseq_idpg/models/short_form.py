"""The short form of a command: what it leaves out comes from the data folder, the backbone's file, and the paper.

fairseq parses a command line, lets the task and the model add their options, and parses again. It then calls the
function of --arch, which calls ``complete_arguments``. What is typed always stands.
"""

import os
import re
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary
from fairseq.dataclass.configs import CheckpointConfig, OptimizationConfig
from fairseq.tasks.sentence_prediction import SentencePredictionConfig

from preprocess.dictionary import read_labels
from preprocess.errors import did_you_mean

from ..backbone.weights import SHAPE, STACK
from ..metrics import LOSSES
from ..names import TASK
from ..saving.backbone_file import NO_BACKBONE, read_backbone

BATCH_SIZE = 16
ADAM = {"optimizer": "adam", "adam_betas": "(0.9, 0.98)", "adam_eps": 1e-6, "weight_decay": 0.1}  # paper, Table 4
CORRELATIONS = "pearson_and_spearman"


def suggest_options(parser: Any) -> None:
    """Let this parser's error for an unknown option end with the nearest known one."""
    refuse = parser.error

    def error(message: str) -> None:
        unknown = re.search(r"unrecognized arguments: .*?(--[\w-]+)", message)
        hint = did_you_mean(unknown[1], parser._option_string_actions) if unknown else ""
        refuse(f"{message}: {hint}".rstrip(": "))

    parser.error = error


def complete_arguments(args: Any) -> None:
    """Fill in place what the arguments of a training, or of fairseq-validate, leave out.

    - Classes, or scores, are the data folder's; sentences begin with ``<s>`` and end with ``</s>``.
    - Sizes, the epsilon of LayerNorm and positions are the backbone's, with --arch roberta_idpg, which names no size.
    - The criterion is fairseq's sentence_prediction, and a batch has 16 examples. Where one of the two is left out, the
      best checkpoint is that of the highest accuracy, or correlation for scores.
    - Within torchrun: the processes that it has started.
    - Without --optimizer: Adam with the paper's settings, if --lr is given.
    """
    if getattr(args, "task", None) != TASK:
        return
    if getattr(args, "arch", None):
        if args.num_classes == -1:
            complete_classes(args)
        if args.init_token is None:
            args.init_token = Dictionary().bos()
            args.separator_token = Dictionary().eos() if args.separator_token is None else args.separator_token
        backbone = getattr(args, "backbone", None) or args.restore_file
        if args.arch == "roberta_idpg" and backbone != NO_BACKBONE and os.path.isfile(backbone):
            complete_sizes(args, backbone)
        # Adam, unless --lr is left out too: fairseq's default rate suits no prompt
        if args.optimizer is None and args.lr != OptimizationConfig().lr:
            vars(args).update(ADAM)
        if int(os.environ.get("WORLD_SIZE", 1)) > 1 and args.distributed_init_method is None:
            complete_processes(args)
    # fairseq refuses a command without the size of a batch, so all that such a one leaves out may be ours
    if args.criterion is None or (args.batch_size is None and args.max_tokens is None):
        complete_criterion(args)
    elif getattr(args, "best_checkpoint_metric", None) is None:
        args.best_checkpoint_metric = CheckpointConfig.best_checkpoint_metric


def complete_classes(args: Any) -> None:
    """Take the number of classes from the data folder, or train on its scores."""
    label = Path(args.data, "label")
    if any(label.glob("*.label")) or getattr(args, "regression_target", False):
        args.regression_target, args.num_classes = True, 1
    elif (label / "dict.txt").is_file():
        classes = len(read_labels(label / "dict.txt"))
        args.num_classes = classes if classes > 1 else args.num_classes


def complete_sizes(args: Any, path: str) -> None:
    if all(hasattr(args, name) for name in SHAPE):
        return
    backbone = read_backbone(path)
    for name, value in backbone.sizes.items():
        if value is not None and not hasattr(args, name):
            setattr(args, name, value)
    if args.max_positions == SentencePredictionConfig.max_positions:
        args.max_positions = len(backbone.weights[STACK + "embed_positions.weight"]) - Dictionary().pad() - 1


def complete_criterion(args: Any) -> None:
    """Choose the criterion, the size of a batch, and the metric of the best checkpoint."""
    args.criterion = args.criterion or "sentence_prediction"
    args.regression_target = scores = getattr(args, "regression_target", False)
    if args.batch_size is None and args.max_tokens is None:
        args.batch_size = BATCH_SIZE
        args.batch_size_valid = args.batch_size_valid or BATCH_SIZE
    if args.best_checkpoint_metric is None:
        args.best_checkpoint_metric = CORRELATIONS if scores else "accuracy"
        args.report_pearson_and_spearman = scores
    args.maximize_best_checkpoint_metric = args.best_checkpoint_metric not in LOSSES


def complete_processes(args: Any) -> None:
    """Take the processes from torchrun: fairseq itself looks at its variables only with several GPUs in a machine."""
    args.distributed_init_method, args.distributed_no_spawn = "env://", True
    args.distributed_world_size, args.distributed_rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    args.device_id = int(os.environ["LOCAL_RANK"])
    if args.cpu:
        args.distributed_backend, args.ddp_backend = "gloo", "legacy_ddp"
