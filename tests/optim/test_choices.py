"""Optimizers and schedules that no training can go with."""

from __future__ import annotations

import pytest
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.optim import FairseqOptimizer, lr_scheduler
from torch import nn, optim

from fairseq_idpg.errors import InputError
from fairseq_idpg.optim import choices
from fairseq_idpg.training.arguments import check_arguments
from tests.folders import training_arguments

COSINE = ("--lr-scheduler", "cosine")
STAGES = ("--lr-scheduler", "tri_stage")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--lr", ""], "--lr is empty: give a number"),
        (["--update-freq", ""], "--update-freq is empty: give a number"),
        *(
            (["--adam-betas", text], f"--adam-betas {text} is no pair of")
            for text in ("(0.9,", "(0.9, 1)", "0.9", "f()")
        ),
        (
            ["--optimizer", "adamax", "--adamax-betas", "(0.9"],
            "--adamax-betas (0.9 is no pair of shares: give",
        ),
        (["--optimizer", "adafactor", "--adafactor-eps", "(1e-30)"], "--adafactor-eps (1e-30) is no pair of shares"),
        *(
            (["--optimizer-overrides", text], f"--optimizer-overrides {text} is no dictionary: write")
            for text in ("{bad", "[1]", "f()")
        ),
        *(
            (["--lr-scheduler", "manual", option, text], f"{option} {text} gives no rates: give some, and their")
            for option in ("--epoch2lr", "--update2lr")
            for text in ("{1: 0.1}", "{'1': -1}", "{'1': 1e999}", "{'a': 1}", "{'1'", "0.1", "f()")
        ),
        (["--optimizer", "composite"], "--optimizer composite is not supported: a command line cannot give groups"),
        (["--lr-scheduler", "pass_through"], "--lr-scheduler pass_through is not supported: a command line cannot"),
        (["--fp16-adam-stats"], "--fp16-adam-stats is not supported: it is for apex's fused Adam alone: leave it out"),
        (["--optimizer", "adafactor", "--relative-step"], "--relative-step is not supported: fairseq gives adafactor"),
        (["--optimizer", "adafactor", "--warmup-init"], "--warmup-init is not supported: fairseq gives adafactor"),
        ([*COSINE, "--max-update", "9", "--lr", "1e-3,1e-4"], "--lr 0.001,0.0001 with --lr-scheduler cosine, which"),
        (
            ["--lr-scheduler", "inverse_sqrt", "--warmup-updates", "0"],
            "--warmup-updates 0 with --lr-scheduler inverse_sqrt, which divides",
        ),
        (["--lr-scheduler", "polynomial_decay"], "--total-num-update is missing, over which --lr-scheduler polynomial"),
        (
            ["--lr-scheduler", "polynomial_decay", "--total-num-update", "9", "--lr", "1e-3,1e-4"],
            "--lr 0.001,0.0001 with --lr-scheduler polynomial_decay, which takes one",
        ),
        (
            ["--lr-scheduler", "polynomial_decay", "--total-num-update", "9", "--force-anneal", "2"],
            "--force-anneal 2 with --lr-scheduler polynomial_decay: each epoch would decay from the rate of the one",
        ),
        ([*COSINE, "--lr-period-updates", "2", "--t-mult", "0.5"], "--t-mult 0.5 with --lr-scheduler cosine: periods"),
        (COSINE, "--max-update 0 with --lr-scheduler cosine leaves no update after --warmup-updates 0: give more"),
        ([*COSINE, "--max-update", "4", "--warmup-updates", "4"], "leaves no update after --warmup-updates 4"),
        (STAGES, "--decay-steps 0 with --lr-scheduler tri_stage, which divides by it: give 1 or more"),
        ([*STAGES, "--phase-ratio", "(0.5,0.1,0.4)"], "of --max-update 0 with --lr-scheduler tri_stage: give --max-"),
        ([*STAGES, "--phase-ratio", "(0.5,0.1,0.1)", "--max-update", "9"], "three shares that add up to 1"),
        ([*STAGES, "--phase-ratio", "(0.5,0.5,0)", "--max-update", "9"], "of which the last has an update"),
    ],
)
def test_refused(given, message):
    with pytest.raises(InputError) as refused:
        check_arguments(training_arguments(*given))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        [*COSINE, "--max-update", "9"],
        [*COSINE, "--lr-period-updates", "9", "--t-mult", "1"],
        ["--lr-scheduler", "inverse_sqrt", "--warmup-updates", "1"],
        ["--lr-scheduler", "polynomial_decay", "--total-num-update", "9"],
        [*STAGES, "--decay-steps", "9"],
        [*STAGES, "--phase-ratio", "(0.5,0.1,0.4)", "--max-update", "9"],
        ["--lr", "1e-3,1e-4"],
        ["--adam-betas", "(0, 0.999)"],
        ["--adam-betas", "(0.9, 0)"],
        ["--lr-scheduler", "manual", "--update2lr", "{'1': 0.1, '2,4': 0, '5-9': 0.01}"],
        ["--optimizer", "adafactor", "--scale-parameter"],
    ],
)
def test_taken(given):
    check_arguments(training_arguments(*given))


def test_overrides_of_an_optimizer():
    options = {"betas": (0.9, 0.98), "weight_decay": 0.0, "amsgrad": False, "beta1": None}
    for taken in ({}, {"betas": (0.5, 0.5)}, {"weight_decay": 1, "amsgrad": True}, {"beta1": 0.9}):
        choices.check_optimizer_overrides(taken, options)
    for refused in ({"lr": 0.1}, {"weigth_decay": 0.1}, {"weight_decay": "x"}, {"betas": 0.9}, {1: 2}):
        with pytest.raises(InputError, match="^--optimizer-overrides: "):
            choices.check_optimizer_overrides(refused, options)


@pytest.mark.parametrize(("optimizer", "package"), [("cpu_adam", "deepspeed"), ("lamb", "apex")])
def test_packages_of_optimizers(optimizer, package, monkeypatch):
    args = training_arguments("--optimizer", optimizer)
    for found in (object(), None):
        monkeypatch.setattr(choices, "find_spec", {package: found}.get)
        if found:
            check_arguments(args)
    with pytest.raises(InputError, match=f"--optimizer {optimizer} needs the package {package}, which is missing"):
        check_arguments(args)


def schedule(*given):
    """One of fairseq's over an optimizer of fairseq, built as a training builds it."""
    optimizer = FairseqOptimizer(None)
    optimizer._optimizer = optim.SGD(nn.Linear(1, 1).parameters(), 9.0)
    options = convert_namespace_to_omegaconf(training_arguments("--lr-scheduler", *given)).lr_scheduler
    built = lr_scheduler.build_lr_scheduler(options, optimizer)
    built.step_update(0)
    return built, optimizer


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        (["fixed", "--lr", "1e-4,1e-2"], 1e-4),
        (["fixed", "--lr", "1e-3", "--warmup-updates", "4"], 2.5e-4),
        (["inverse_sqrt", "--warmup-updates", "4"], 0),
        (["inverse_sqrt", "--warmup-updates", "4", "--warmup-init-lr", "1e-7"], 1e-7),
        (["polynomial_decay", "--total-num-update", "9", "--warmup-updates", "4"], 0),
    ],
)
def test_the_first_rate(given, rate):
    built, optimizer = schedule(*given)
    assert optimizer.get_lr() == pytest.approx(rate)
    built.step_begin_epoch(1)
    built.step_update(0)
    assert optimizer.get_lr() == pytest.approx(rate)


@pytest.mark.parametrize(("rate", "least"), [(0.0, 0.0), (1e-4, 1e-3)])
def test_a_training_that_would_end_at_once(rate, least):
    with pytest.raises(InputError, match=f"^--stop-min-lr {least:g} ends this training .* is {rate:g}: give less"):
        choices.check_first_rate(rate, least)
    choices.check_first_rate(rate, rate / 2 - 1e-9)
