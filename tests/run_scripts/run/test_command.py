"""fairseq-train's options for each task and method: Table 4 and the released scripts."""

from dataclasses import replace
from pathlib import Path

import pytest

from preprocess.data_folder import DataFolder
from run_scripts.run.command import cache_of, training_command, with_few_shot_input
from run_scripts.run.experiment import Experiment, Splits

ABSENT = "not there"


@pytest.fixture
def command(world):
    """Options of an experiment's command: {option: its value, or None}."""

    def made(task="RTE", method="m-idpg-phm", lr=1e-3, **more):
        experiment = Experiment(task, method, lr, 3, str(world.data / f"{task}-bin"), "model.pt", **more)
        folder = DataFolder(Path(experiment.data if Path(experiment.data).is_dir() else world.data / "RTE-bin"))
        words = training_command(experiment, Splits(folder, "valid", "test"), Path("runs/x"), Path("cache"))
        assert words[0] == "fairseq-train"
        options = [at for at, word in enumerate(words) if word.startswith("--")]
        ends = [*options[1:], len(words)]
        return {words[at]: " ".join(words[at + 1 : end]) or None for at, end in zip(options, ends)}

    return made


COMMON = {
    **{"--optimizer": "adam", "--adam-betas": "(0.9, 0.98)", "--adam-eps": "1e-6", "--weight-decay": "0.1"},
    **{"--dropout": "0.1", "--attention-dropout": "0.1", "--lr": "0.001", "--lr-scheduler": "fixed", "--seed": "3"},
    **{"--best-checkpoint-metric": "accuracy", "--maximize-best-checkpoint-metric": None},
    **{"--task": "sentence_prediction_idpg", "--method": "m-idpg-phm", "--backbone": "model.pt"},
    **{"--prompt-position": "0", "--valid-subset": "valid", "--num-classes": "2", "--max-tokens": "4400"},
    **{"--required-batch-size-multiple": "1", "--representation-cache": "cache", "--save-dir": "runs/x"},
}
SMALL = {"--total-batch-size": "16", "--max-epoch": "50"}
LARGE = {"--total-batch-size": "32", "--max-epoch": "10"}
RISING = {"--lr-scheduler": "polynomial_decay", "--max-update": ABSENT}
SCALES = ("--fp16-init-scale", "--threshold-loss-scale", "--fp16-scale-window")
SCORED = {"--regression-target": None, "--num-classes": "1"}
CASES = [  # an experiment, options that its command has
    ({}, {**COMMON, **dict.fromkeys(("--fp16", *SCALES), ABSENT)}),
    # further options win
    ({"options": ("--fp16", "--fp16-scale-window", "64")}, dict(zip(SCALES, ("4", "1", "64")))),
    # the authors limit updates to those of full batches: 24 examples x 50 / 16, 24 x 10 / 32, rounded up
    ({"task": "CR"}, {**SMALL, "--max-update": "75"}),
    ({"task": "QNLI"}, {**LARGE, "--max-update": "8"}),
    ({"task": "QNLI", "k": 100}, SMALL),
    ({"task": "QNLI", "max_epoch": 3}, {"--max-update": ABSENT}),
    # whole models warm up and decay: 24 examples in batches of 16 for 10 epochs
    ({"method": "fine-tuning"}, {**RISING, "--max-epoch": "10", "--total-num-update": "20", "--warmup-updates": "1"}),
    ({"method": "fine-tuning", "warm_up": 0.5}, {"--warmup-updates": "10"}),
    # and prompts where a paper says so: in batches of 8 for 30 epochs
    (
        {"warm_up": 0.1, "max_epoch": 30, "batch_size": 8},
        {**RISING, "--max-epoch": "30", "--total-num-update": "90", "--warmup-updates": "9"},
    ),
    # another optimizer and another schedule have their own options
    ({"options": ("--optimizer", "sgd")}, {"--optimizer": "sgd", "--adam-betas": ABSENT, "--weight-decay": "0.1"}),
    ({"options": ("--optimizer", "grouped_adam")}, {"--adam-betas": "(0.9, 0.98)", "--adam-eps": "1e-6"}),
    (
        {"method": "fine-tuning", "options": ("--lr-scheduler=inverse_sqrt", "--warmup-updates", "2")},
        {"--total-num-update": ABSENT, "--warmup-updates": "2"},
    ),
    # supplementary training: 24 pairs, twice, in batches of 32 for 10 epochs
    (
        {"task": "MNLI", "method": "s-idpg-phm", "supplementary": True},
        {**RISING, **LARGE, "--total-num-update": "20", "--swap-pairs": "append", "--no-freeze-backbone": None}
        | {"--num-classes": "3", "--prompt-position": "0"},
    ),
    # runs that count updates
    ({"max_update": 7}, {"--max-epoch": ABSENT, "--max-update": "7"}),
    ({"max_update": 7, "max_epoch": 3}, {"--max-epoch": "3", "--max-update": "7"}),
    ({"method": "fine-tuning", "max_update": 100, "max_epoch": 1}, {"--total-num-update": "2"}),
    # starts
    ({"init_prompts_from": "a.pt"}, {"--prompt-init": "saved", "--prompt-init-from": "a.pt"}),
    ({"init_head_from": "b.pt"}, {"--head-init-from": "b.pt"}),
    ({"source_run": "ab"}, {"--finetune-from-model": "runs/ab/checkpoint_best.pt"}),
    # what chooses the checkpoint
    ({"task": "MRPC"}, {"--best-checkpoint-metric": "acc_and_f1", "--report-acc-and-f1": None}),
    ({"task": "MRPC", "selection": "paper"}, {"--best-checkpoint-metric": "accuracy"}),
    ({"task": "STS-B"}, {"--best-checkpoint-metric": "pearson_and_spearman", **SCORED}),
    (
        {"task": "STS-B", "selection": "paper", "k": 100},
        {"--best-checkpoint-metric": "loss", "--maximize-best-checkpoint-metric": ABSENT, **SCORED},
    ),
    ({"task": "CB", "selection": "paper"}, {"--best-checkpoint-metric": "acc_and_macro_f1"}),
]


@pytest.mark.parametrize(
    ("more", "expected"), CASES, ids=[f"{number} {more}" for number, (more, _) in enumerate(CASES)]
)
def test_options_of_a_command(command, more, expected):
    found = command(**more)
    assert {name: found.get(name, ABSENT) for name in expected} == expected
    # validation is not limited in tokens
    assert int(found["--max-tokens-valid"]) >= int(found["--batch-size-valid"]) * int(found["--max-positions"])


def test_few_shot_feeds_one_representation_to_all_layers():
    few = Experiment("RTE", "m-idpg-phm", 0.0, 1, "", "", k=100, options=("--fp16",))
    assert with_few_shot_input(few).options == ("--fp16", "--representation", "backbone")
    given = replace(few, options=("--representation=previous-layer",))
    for other in (given, replace(few, k=None), replace(few, method="m-idpg-phm-glove")):
        assert with_few_shot_input(other) is other


CHANGING = [{"supplementary": True}, *({"method": name} for name in ("fine-tuning", "m-idpg-phm+compacter-shared"))]
CHANGING += [{"method": "lopa", "options": ("--representation-trained", "true")}]
CHANGING += [{"options": (option,)} for option in ("--representation-dropout", "--shorten-method=random_crop")]


@pytest.mark.parametrize("change", CHANGING)
def test_no_cache_where_representations_change(change):
    experiment = Experiment("RTE", "m-idpg-phm", 0.0, 1, "", "")
    assert cache_of(experiment, Path("results")) == Path("results/cache")
    assert cache_of(replace(experiment, **change), Path("results")) is None
