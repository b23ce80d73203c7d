"""Refuse options that would change the training that was asked for; read, but never run, options that hold Python."""

import ast
import contextlib
from argparse import Namespace
from typing import Any

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.criterions.sentence_prediction import SentencePredictionCriterion

from preprocess.flags import flag_name

from ..errors import InputError
from ..metrics import check_metric
from ..names import TASK, TRAIN
from ..saving.configuration import check_overrides, shown
from .kept_options import FIXED, of_method

# options that fairseq evaluates, with an example
PAIRS = {"adam_betas": "(0.9, 0.98)", "adamax_betas": "(0.9, 0.999)", "adafactor_eps": "(1e-30, 1e-3)"}


def check_arguments(args: Namespace) -> None:
    """Raise InputError for an option that does not fit our task, before anything is read or built."""
    for option in PAIRS:
        if isinstance(getattr(args, option, None), str):
            parse_pair(option, getattr(args, option))
    own = CRITERION_REGISTRY.get(TASK, SentencePredictionCriterion)
    if not (args.criterion == "sentence_prediction" or issubclass(CRITERION_REGISTRY.get(args.criterion, object), own)):
        raise InputError(
            f"--criterion {args.criterion} does not fit --task {TASK}: give --criterion sentence_prediction or {TASK}"
        )
    if trains(args):
        check_metric(args)
        if getattr(args, "optimizer", None) is None:
            raise InputError("--lr is missing: give 1e-3, a rate that most prompts train well with")
        # fairseq ends at once with these, or after two updates, and says nothing
        least = {"batch_size": (args.batch_size, 1), "max_epoch": (args.max_epoch, 0), "lr": (min(args.lr), 0)}
        for name, (value, smallest) in least.items():
            if value is not None and value < smallest:
                raise InputError(f"{flag_name(name)} {value}: give {smallest} or more")
        if ":" in args.data:
            raise InputError(f"data folder {args.data}: fairseq-train ends its name at the colon: give it another")
        # The task knows the training set by its name: its pairs are exchanged, and its questions may be split up.
        if not args.train_subset.startswith(TRAIN):
            raise InputError(
                f"--train-subset {args.train_subset} is not taken for training: give a name that begins with {TRAIN}"
            )
        # fairseq has one iterator for each split: a validation would use up the batches of the training.
        training = [split for split in args.valid_subset.split(",") if split.startswith(TRAIN)]
        if training:
            raise InputError(
                f"--valid-subset {args.valid_subset} is not supported: {training[0]} is read as training examples: "
                f"leave it out, and ask fairseq-validate --valid-subset {training[0]} afterwards"
            )


def trains(args: Namespace) -> bool:
    """Return whether these are arguments of a training; others name what was trained."""
    return getattr(args, "path", None) is None and hasattr(args, "stop_min_lr")


def literal(text: str) -> Any:
    """Return the value of a Python literal, and None for any other text."""
    with contextlib.suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return ast.literal_eval(text)
    return None


def parse_pair(option: str, text: str) -> tuple[float, float]:
    """Return the two numbers of one of ``PAIRS``; raise InputError unless they are two shares below 1."""
    with contextlib.suppress(TypeError, ValueError):  # no two numbers
        first, second = literal(text)
        if 0 <= first < 1 and 0 <= second < 1:
            return float(first), float(second)
    flag, example = flag_name(option), PAIRS[option]
    raise InputError(f"{flag} {text:.80} is not a pair of shares: give two numbers below 1, such as '{example}'")


def parse_overrides(text: str | None) -> dict[str, Any]:
    """Return the options in --model-overrides; raise InputError for unknown ones, and for those that were trained."""
    what = f"--model-overrides {text}"
    overrides = {} if text is None else literal(text)
    if not isinstance(overrides, dict):
        raise InputError(f"{what} is not a dictionary: write \"{{'backbone': 'NEW/model.pt'}}\"")
    check_overrides(overrides, what)
    never = [*FIXED["model"], *of_method(changeable=False)]
    trained = next((name for name in {**overrides, **overrides.get("model", {})} if name in never), None)
    if trained is not None:
        raise InputError(f"{what}: the model was trained with its {shown(trained)}: leave that out")
    return overrides
