"""fairseq-train's options for each task and method: Table 4 and the released scripts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from preprocess.data_folder import DataFolder
from preprocess.errors import InputError
from run_scripts.run.command import cache_of, training_command, with_few_shot_input
from run_scripts.run.experiment import Experiment, Splits
from run_scripts.run.preflight import parse


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


def test_what_all_runs_have_in_common(command):
    options = command()
    for name, value in {
        "--optimizer": "adam",
        "--adam-betas": "(0.9, 0.98)",
        "--adam-eps": "1e-6",
        "--weight-decay": "0.1",
        "--dropout": "0.1",
        "--attention-dropout": "0.1",
        "--lr": "0.001",
        "--lr-scheduler": "fixed",
        "--seed": "3",
        "--best-checkpoint-metric": "accuracy",
        "--maximize-best-checkpoint-metric": None,
        "--task": "sentence_prediction_idpg",
        "--method": "m-idpg-phm",
        "--backbone": "model.pt",
        "--prompt-position": "0",
        "--valid-subset": "valid",
        "--num-classes": "2",
        "--max-tokens": "4400",
        "--required-batch-size-multiple": "1",
        "--representation-cache": "cache",
        "--save-dir": "runs/x",
    }.items():
        assert options[name] == value, name
    assert not {"--fp16", "--fp16-init-scale", "--threshold-loss-scale", "--fp16-scale-window"} & set(options)
    half = command(options=("--fp16", "--fp16-scale-window", "64"))  # further options win
    assert (half["--fp16-init-scale"], half["--threshold-loss-scale"], half["--fp16-scale-window"]) == ("4", "1", "64")
    # validation is not limited in tokens
    assert int(options["--max-tokens-valid"]) >= int(options["--batch-size-valid"]) * int(options["--max-positions"])


@pytest.mark.parametrize(
    ("task", "batch", "epochs", "updates"),
    [("CR", "16", "50", "75"), ("STS-B", "16", "50", "75"), ("QNLI", "32", "10", "8"), ("MNLI", "32", "10", "8")],
)
def test_batch_epochs_and_updates_of_the_paper(command, task, batch, epochs, updates):
    """The authors limit updates to those of full batches: 24 examples x 50 / 16, 24 x 10 / 32, rounded up."""
    options = command(task)
    assert (options["--total-batch-size"], options["--max-epoch"]) == (batch, epochs)
    assert options["--max-update"] == updates
    few = command(task, k=100)
    assert (few["--total-batch-size"], few["--max-epoch"]) == ("16", "50")
    assert "--max-update" not in command(task, max_epoch=3)


@pytest.mark.parametrize(
    ("task", "metric", "of_the_authors", "report"),
    [
        ("RTE", "accuracy", "accuracy", None),
        ("MRPC", "acc_and_f1", "accuracy", "--report-acc-and-f1"),
        ("STS-B", "pearson_and_spearman", "loss", "--report-pearson-and-spearman"),
        ("CB", "acc_and_macro_f1", "acc_and_macro_f1", "--report-acc-and-macro-f1"),
        ("ReCoRD", "choice_f1_and_em", "choice_f1_and_em", "--report-choice-f1-and-em"),
    ],
)
@pytest.mark.parametrize("k", [None, 100])
def test_what_chooses_the_checkpoint(command, task, metric, of_the_authors, report, k):
    for selection, chooses in (("clean", metric), ("paper", of_the_authors)):
        options = command(task, selection=selection, k=k)
        assert options["--best-checkpoint-metric"] == chooses and (report is None or report in options)
        assert ("--maximize-best-checkpoint-metric" in options) == (chooses != "loss")
        assert ("--regression-target" in options) == (task == "STS-B") == (options["--num-classes"] == "1")


def test_whole_models_warm_up_and_decay(command):
    options = command(method="fine-tuning")
    # 24 examples in batches of 16 for 10 epochs
    assert (options["--max-epoch"], options["--total-num-update"], options["--warmup-updates"]) == ("10", "20", "1")
    assert options["--lr-scheduler"] == "polynomial_decay" and "--no-freeze-backbone" not in options
    assert "--max-update" not in options


def test_prompts_warm_up_and_decay_where_a_paper_says_so(command):
    options = command(warm_up=0.1, max_epoch=30, batch_size=8)
    # 24 examples in batches of 8 for 30 epochs
    assert options["--lr-scheduler"] == "polynomial_decay" and options["--max-epoch"] == "30"
    assert (options["--total-num-update"], options["--warmup-updates"]) == ("90", "9")
    assert command(warm_up=0.0)["--warmup-updates"] == "0"
    assert command(method="fine-tuning", warm_up=0.5)["--warmup-updates"] == "10"


@pytest.mark.parametrize("name", ["sgd", "adafactor", "grouped_adam"])
def test_another_optimizer_has_its_own_options(command, name):
    """fairseq refuses those of Adam there."""
    options = command(options=("--optimizer", name))
    assert (options["--optimizer"], options["--weight-decay"]) == (name, "0.1")
    assert ("--adam-betas" in options, "--adam-eps" in options) == (name == "grouped_adam",) * 2
    words = [word for option, value in options.items() for word in (option, *([] if value is None else [value]))]
    assert parse(["fairseq-train", "data", *words]).optimizer == name


@pytest.mark.parametrize("method", ["m-idpg-phm", "fine-tuning"])
@pytest.mark.parametrize("name", ["inverse_sqrt", "reduce_lr_on_plateau"])
def test_another_schedule_has_its_own_options(command, method, name):
    options = command(method=method, options=(f"--lr-scheduler={name}", "--warmup-updates", "2"))
    assert "--total-num-update" not in options and options["--warmup-updates"] == "2"
    with pytest.raises(InputError, match="warm_up 0.1"):
        command(method=method, warm_up=0.1, options=("--lr-scheduler", name))


def test_supplementary_training(command):
    options = command("MNLI", "s-idpg-phm", 1e-5, supplementary=True)
    # 24 pairs, twice, in batches of 32 for 10 epochs
    assert options["--total-num-update"] == "20" and options["--total-batch-size"] == "32"
    assert options["--swap-pairs"] == "append" and "--no-freeze-backbone" in options
    assert options["--num-classes"] == "3" and options["--prompt-position"] == "0"
    assert "--max-epoch" in options and options["--lr-scheduler"] == "polynomial_decay"


def test_runs_that_count_updates(command):
    assert "--max-epoch" not in command(max_update=7) and command(max_update=7)["--max-update"] == "7"
    both = command(max_update=7, max_epoch=3)
    assert (both["--max-epoch"], both["--max-update"]) == ("3", "7")
    assert command(method="fine-tuning", max_update=7)["--total-num-update"] == "7"
    assert command(method="fine-tuning", max_update=100, max_epoch=1)["--total-num-update"] == "2"


def test_starts(command):
    options = command(init_prompts_from="a.pt", init_head_from="b.pt", source_run="ab")
    assert (options["--prompt-init"], options["--prompt-init-from"]) == ("saved", "a.pt")
    assert (options["--head-init-from"], options["--finetune-from-model"]) == ("b.pt", "runs/ab/checkpoint_best.pt")


@pytest.mark.parametrize("method", ["m-idpg-phm", "m-idpg-dnn", "m-idpg-phm+adapter"])
def test_few_shot_feeds_one_representation_to_all_layers(method):
    few = Experiment("RTE", method, 0.0, 1, "", "", k=100, options=("--fp16",))
    assert with_few_shot_input(few).options == ("--fp16", "--representation", "backbone")
    for options in (("--representation", "previous-layer"), ("--representation=previous-layer",)):
        assert with_few_shot_input(replace(few, options=options)).options == options
    for other in (replace(few, k=None), replace(few, method="s-idpg-phm"), replace(few, method="m-idpg-phm-glove")):
        assert with_few_shot_input(other) is other


@pytest.mark.parametrize(
    "change",
    [
        {"supplementary": True},
        {"method": "fine-tuning"},
        {"method": "m-idpg-phm+compacter-shared"},
        {"options": ("--representation-dropout",)},
        {"options": ("--shorten-method", "random_crop")},
        {"options": ("--shorten-method=random_crop",)},
    ],
)
def test_no_cache_where_representations_change(change):
    experiment = Experiment("RTE", "m-idpg-phm", 0.0, 1, "", "")
    assert cache_of(experiment, Path("results")) == Path("results/cache")
    assert cache_of(replace(experiment, **change), Path("results")) is None
