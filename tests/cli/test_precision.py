"""--bf16, --fp16 and --amp through the command line; on a CPU --fp16 needs --fp16-no-flatten-grads."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.saving.checksum import carry_checksum
from tests.folders import same_tensors, train, validate

METHODS = ["m-idpg-phm", "compacter-shared", "fine-tuning"]


@pytest.fixture(scope="module")
def losses(pairs, backbone, tmp_path_factory):
    def found(method, *options):
        folder = tmp_path_factory.mktemp(method)
        arguments = ["--backbone", backbone, "--max-epoch", 2, "--method", method, *options]
        return train(pairs, folder, *arguments, without="" if "phm" in method else "--phm-n"), folder

    return found


@pytest.mark.parametrize("method", METHODS)
def test_bf16_trains_like_float32(losses, pairs, method):
    half, folder = losses(method, "--bf16")
    whole, _ = losses(method)
    assert half.log("train_loss") == pytest.approx(whole.log("train_loss"), abs=0.05)
    state = torch.load(folder / "checkpoint_last.pt", weights_only=True)
    tensors = filter(torch.is_tensor, state["model"].values())
    saved = [value for value in tensors if value.is_floating_point()]  # written as float32
    assert saved and all(torch.equal(value, value.bfloat16().float()) for value in saved)
    moments = [value for values in state["last_optimizer_state"]["state"].values() for value in values.values()]
    assert {value.dtype for value in moments if torch.is_tensor(value)} == {torch.float32}
    assert validate(pairs, folder / "checkpoint_last.pt").log("valid_loss") == pytest.approx(
        half.log("valid_loss")[-1:], abs=0.05
    )


FP16 = ["--fp16", "--fp16-no-flatten-grads", "--fp16-scale-window", 3]  # flat gradients need a GPU


@pytest.mark.parametrize(
    ("options", "processes"),
    [
        (["--bf16", "--clip-norm", 0.5], 1),
        (["--bf16", "--batch-size", 4], 2),
        ([*FP16, "--optimizer", "grouped_adam", "--head-lr", 3, "--weight-decay", 0.1], 1),
        ([*FP16, "--update-freq", 2, "--batch-size", 4, "--clip-norm", 0.5], 1),
        (["--memory-efficient-fp16", "--fp16-scale-window", 3], 1),
        (["--amp", "--update-freq", 2, "--batch-size", 4, "--clip-norm", 0.5], 1),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else f"{value} processes",
)
def test_resuming_changes_nothing(pairs, backbone, tmp_path, options, processes):
    """Stopped after 4 of 9 updates, inside the second epoch."""
    usual = ["--backbone", backbone, "--max-epoch", 3, *options]
    whole = train(pairs, tmp_path / "whole", *usual, processes=processes)
    train(pairs, tmp_path / "parts", *usual, "--max-update", 4, processes=processes)
    resumed = train(pairs, tmp_path / "parts", *usual, processes=processes)
    for key in ("train_loss", "train_gnorm", "train_loss_scale", "valid_loss", "valid_accuracy"):
        assert resumed.log(key) == whole.log(key)[1:]
    states = [torch.load(tmp_path / run / "checkpoint_last.pt", weights_only=True) for run in ("whole", "parts")]
    assert same_values(states[0]["model"], states[1]["model"])  # with the float32 weights and the counters
    assert same_values(states[0]["last_optimizer_state"], states[1]["last_optimizer_state"])
    assert "the checkpoint keeps no" not in resumed.output


def same_values(one, other):
    if torch.is_tensor(one):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_values(one[name], other[name]) for name in one)
    return len(one) == len(other) and all(map(same_values, one, other)) if isinstance(one, list) else one == other


@pytest.mark.parametrize(("options", "dtype"), [(FP16, torch.float16), (["--bf16"], torch.bfloat16)])
def test_a_loaded_checkpoint_gives_the_numbers_of_its_training(pairs, backbone, tmp_path, options, dtype):
    """The model of a file is the one that was validated: the float32 weights beside it are for resuming alone."""
    printed = train(pairs, tmp_path, "--backbone", backbone, "--max-epoch", 2, *options).log("valid_loss")[-1]
    path = tmp_path / "checkpoint_last.pt"
    state = torch.load(path, weights_only=True)
    assert state["model"]["_extra_state"]["fp16"]["weights"]
    tensors = [value for value in state["model"].values() if torch.is_tensor(value) and value.is_floating_point()]
    assert all(value.dtype == torch.float32 and torch.equal(value, value.to(dtype).float()) for value in tensors)
    if dtype == torch.float16:
        assert validate(pairs, path, "--fp16").log("valid_loss") == [printed]
    assert validate(pairs, path).log("valid_loss") == pytest.approx([printed], abs=0.01)


def test_a_half_precision_checkpoint_as_initialisation(pairs, backbone, tmp_path):
    """Its float32 weights are not read: the run starts from the weights that everybody else reads in the file."""
    train(pairs, tmp_path / "first", "--backbone", backbone, "--max-epoch", 1, "--bf16")
    checkpoint = tmp_path / "first" / "checkpoint_last.pt"
    without = torch.load(checkpoint, weights_only=True)
    del without["model"]["_extra_state"]["fp16"]
    carry_checksum(without["model"])
    torch.save(without, tmp_path / "without.pt")
    losses = []
    for path, precision in (
        (checkpoint, "--bf16"),
        (tmp_path / "without.pt", "--bf16"),
        (checkpoint, "--no-progress-bar"),
    ):
        options = ["--backbone", backbone, "--max-epoch", 2, "--finetune-from-model", path, precision]
        run = train(pairs, tmp_path / f"{len(losses)}", *options)
        assert "the checkpoint keeps no" not in run.output
        losses.append(run.log("train_loss"))
    assert losses[0] == losses[1] and losses[2] == pytest.approx(losses[0], abs=0.01)


def test_the_cache_keeps_precisions_apart(pairs, backbone, tmp_path):
    """M(x) used to be what the first run had computed, whatever the precision of the next."""
    usual = ["--backbone", backbone, "--max-epoch", 2]
    alone = train(pairs, tmp_path / "alone", *usual, "--representation-cache", tmp_path / "own")
    shared = ["--representation-cache", tmp_path / "cache"]
    for precision in (["--bf16"], FP16):
        assert train(pairs, tmp_path / precision[0], *usual, *precision, *shared).output.count("M(x) of") == 2
    whole = train(pairs, tmp_path / "whole", *usual, *shared, "--num-workers", 1)
    assert whole.output.count("M(x) of") == 2 and len(list((tmp_path / "cache").glob("*.npy"))) == 6
    states = [torch.load(tmp_path / run / "checkpoint_last.pt", weights_only=True) for run in ("alone", "whole")]
    assert same_tensors(states[0]["model"], states[1]["model"]) and whole.log("train_loss") == alone.log("train_loss")
    assert "M(x) of" not in train(pairs, tmp_path / "amp", *usual, "--amp", *shared).output
