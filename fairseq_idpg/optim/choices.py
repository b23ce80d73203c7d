"""Optimizers and schedules of fairseq with options that no training can go with."""

import ast
import contextlib
import math
from argparse import Namespace
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from fairseq.optim.lr_scheduler.manual_lr_scheduler import ManualSchedule

from preprocess.flags import flag_name

from ..errors import InputError

PACKAGES = {"cpu_adam": "deepspeed", "lamb": "apex"}  # optimizer -> the package that it is of
COMPOSITE = {"optimizer": "composite", "lr_scheduler": "pass_through"}
PAIRS = {"adam_betas": "(0.9, 0.98)", "adamax_betas": "(0.9, 0.999)", "adafactor_eps": "(1e-30, 1e-3)"}
ONE_RATE = ("cosine", "inverse_sqrt", "polynomial_decay", "reduce_lr_on_plateau", "tri_stage", "triangular")


def literal(text: str) -> Any:
    """The value that a text is as Python writes it, of which nothing is executed; None of any other text."""
    with contextlib.suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return ast.literal_eval(text)
    return None


def parse_pair(option: str, text: str) -> tuple[float, float]:
    """The two numbers of one of ``PAIRS``, a text that fairseq runs as Python, whatever it is.

    Raises:
        InputError: it is no pair of shares.
    """
    with contextlib.suppress(TypeError, ValueError):  # of other values than two numbers
        first, second = literal(text)
        if 0 <= first < 1 and 0 <= second < 1:
            return float(first), float(second)
    flag, example = flag_name(option), PAIRS[option]
    raise InputError(f"{flag} {text:.80} is no pair of shares: give two below 1, such as '{example}'")


def check_optimizer_overrides(overrides: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raises InputError for what is none of an optimizer's ``options``, or no value of its kind."""
    for name, value in overrides.items():
        if name not in options:
            raise InputError(
                f"--optimizer-overrides: {name!r:.80} is no option of this optimizer, which has "
                f"{', '.join(options)}: leave it out"
            )
        kinds = (int, float) if isinstance(options[name], (int, float)) else type(options[name])
        if options[name] is not None and not isinstance(value, kinds):
            raise InputError(
                f"--optimizer-overrides: {name} {value!r:.80} is no value like {options[name]!r}: give another"
            )


def check_optimization(args: Namespace) -> None:
    """Refuses what fairseq ends in a traceback with, or stops at once with.

    Raises:
        InputError: naming the option, its value and the remedy.
    """
    for option in ("lr", "update_freq"):
        if not getattr(args, option):
            raise InputError(f"{flag_name(option)} is empty: give a number")
    overrides = args.optimizer_overrides
    if not isinstance(literal(overrides), dict):
        raise InputError(f"--optimizer-overrides {overrides:.80} is no dictionary: write \"{{'weight_decay': 0.1}}\"")
    if getattr(args, "optimizer", None) is None:
        raise InputError("--optimizer is missing: give adam, or grouped_adam for two learning rates")
    package = PACKAGES.get(args.optimizer)
    if package and find_spec(package) is None:
        raise InputError(f"--optimizer {args.optimizer} needs the package {package}, which is missing: give adam")
    for option, name in COMPOSITE.items():
        if getattr(args, option) == name:
            raise InputError(
                f"{flag_name(option)} {name} is not supported: a command line cannot give groups of "
                "parameters optimizers of their own: give --optimizer adam, or grouped_adam for two learning rates"
            )
    if getattr(args, "fp16_adam_stats", False):
        raise InputError("--fp16-adam-stats is not supported: it is for apex's fused Adam alone: leave it out")
    for option in ("relative_step", "warmup_init"):
        if args.optimizer == "adafactor" and getattr(args, option):
            raise InputError(
                f"{flag_name(option)} is not supported: fairseq gives adafactor the rate of --lr in any case, and it "
                "takes one of them: leave it out"
            )
    _check_schedule(args.lr_scheduler, args)


def _check_schedule(name: str, args: Namespace) -> None:
    schedule = f"--lr-scheduler {name}"
    if name in ONE_RATE and len(args.lr) > 1:
        rates = ",".join(map(str, args.lr))
        raise InputError(f"--lr {rates} with {schedule}, which takes one: give one, or --lr-scheduler fixed")
    if name == "inverse_sqrt" and not args.warmup_updates:
        raise InputError(f"--warmup-updates 0 with {schedule}, which divides by it: give 1 or more")
    if name == "polynomial_decay" and args.total_num_update is None:
        raise InputError(f"--total-num-update is missing, over which {schedule} decays: give as many as --max-update")
    if name == "polynomial_decay" and args.force_anneal is not None:
        raise InputError(
            f"--force-anneal {args.force_anneal} with {schedule}: each epoch would decay from the rate of the one "
            "before, which no checkpoint holds: leave it out"
        )
    if name == "cosine" and args.t_mult < 1:
        raise InputError(f"--t-mult {args.t_mult} with {schedule}: periods would shrink to nothing: give 1 or more")
    if name == "cosine" and args.lr_period_updates <= 0 and args.max_update <= args.warmup_updates:
        raise InputError(
            f"--max-update {args.max_update} with {schedule} leaves no update after --warmup-updates "
            f"{args.warmup_updates}: give more, or --lr-period-updates"
        )
    if name == "tri_stage":
        _check_stages(schedule, args)
    if name == "manual":
        for option in ("epoch2lr", "update2lr"):
            _check_rates(flag_name(option), getattr(args, option))


def _check_rates(flag: str, text: str) -> None:
    """Raises InputError unless fairseq's schedule reads rates out of the text."""
    try:
        rates = ManualSchedule.parse_manuallr_args(None, text).values()
    except (AttributeError, ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        rates = [math.nan]
    if not all(0 <= rate < math.inf for rate in rates):
        raise InputError(
            f"{flag} {text:.80} gives no rates: give some, and their numbers in quotes, such as "
            "\"{'1': 0.001, '3-5': 0.0001}\""
        )


def _check_stages(schedule: str, args: Namespace) -> None:
    ratio = args.phase_ratio
    if ratio is None and args.decay_steps < 1:
        raise InputError(f"--decay-steps {args.decay_steps} with {schedule}, which divides by it: give 1 or more")
    if ratio is not None and (args.max_update < 1 or sum(ratio) != 1 or int(args.max_update * ratio[2]) < 1):
        raise InputError(
            f"--phase-ratio {ratio} of --max-update {args.max_update} with {schedule}: give --max-update, and three "
            "shares that add up to 1, of which the last has an update"
        )


def check_first_rate(rate: float, least: float) -> None:
    """Refuses a training that fairseq would end, as if it were done, before its first update.

    Args:
        rate: the learning rate of the first update, as the schedule gives it.
        least: --stop-min-lr.
    """
    if rate <= least:
        raise InputError(
            f"--stop-min-lr {least:g} ends this training before its first update, whose learning rate is {rate:g}: "
            "give less, or leave it out"
        )
