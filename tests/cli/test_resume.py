"""A training that is started again goes on as the one it was, or says why not."""

import re
import shutil

import pytest
import torch

from fairseq_idpg.saving.tensors import with_progress_checksums
from tests.folders import same_tensors, saved, train, write_folder
from tests.training.test_lock import another_process


@pytest.fixture(scope="module")
def stopped(place, pairs, backbone):
    """Save folder of one epoch, of which tests take copies."""
    train(pairs, place / "stopped", "--backbone", backbone, "--max-epoch", 1)
    return place / "stopped"


@pytest.fixture
def run(stopped, tmp_path):
    return shutil.copytree(stopped, tmp_path / "run")


@pytest.mark.parametrize("more", [["--curriculum", 2], ["--optimizer", "nag", "--warmup-updates", 9]])
def test_parts_of_a_training_are_the_whole(pairs, backbone, tmp_path, more):
    """fairseq keeps its loader from epoch to epoch: also where batches are shuffled after some epochs. --optimizer nag
    scales its momentum by how the rate changes from an update to the next."""
    train(pairs, tmp_path / "whole", "--backbone", backbone, *more, "--max-epoch", 3)
    for epochs in (2, 3):
        train(pairs, tmp_path / "twice", "--backbone", backbone, *more, "--max-epoch", epochs)
    assert same_tensors(saved(tmp_path / "twice"), saved(tmp_path / "whole"))


def test_an_ended_training_is_left_as_it_is(pairs, backbone, tmp_path):
    usual = ["--backbone", backbone, "--max-epoch", 6]
    endings = {
        "--patience 1": [*usual, "--lr", 0, "--patience", 1],
        "--max-update 4": [*usual, "--max-update", 4, "--no-save-optimizer-state"],
    }
    for name, options in endings.items():
        train(pairs, tmp_path / name, *options)
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pt")}
        said = train(pairs, tmp_path / name, *options).output
        assert re.search(f"this training has ended already: .*, {name}\n", said)
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pt")} == before


def test_a_damaged_last_checkpoint_is_named_and_the_ways_on_work(pairs, backbone, run, tmp_path):
    """From the best checkpoint with --restore-file, or anew without it."""
    last = run / "checkpoint_last.pt"
    last.write_bytes(last.read_bytes()[:-1000])
    assert str(last) in train(pairs, run, "--backbone", backbone, "--max-epoch", 3, succeed=False).last_line
    best = ["--restore-file", run / "checkpoint_best.pt"]
    went_on = train(pairs, tmp_path / "other", "--backbone", backbone, "--max-epoch", 3, *best)
    assert "begin training epoch 1" not in went_on.output
    last.unlink()
    assert "begin training epoch 1" in train(pairs, run, "--backbone", backbone, "--max-epoch", 3).output


def test_what_must_stay(pairs, backbone, run, tmp_path):
    """Other data too, unless it has only moved."""
    before = (run / "checkpoint_last.pt").read_bytes()
    other = write_folder(tmp_path / "other", splits={"train": 32, "valid": 13})
    for data, options, message in (
        (pairs, ["--prompt-length", 3], "--prompt-length 5, now 3"),
        (pairs, ["--fp16", "--fp16-no-flatten-grads"], "an optimizer of float32, now --fp16 or --bf16"),
        (other, [], "the training data "),
    ):
        refused = train(data, run, "--backbone", backbone, "--max-epoch", 2, *options, succeed=False)
        assert refused.last_line.startswith("fairseq_idpg: the checkpoint to go on from was trained with ")
        assert message in refused.last_line and "another --save-dir" in refused.last_line
        assert (run / "checkpoint_last.pt").read_bytes() == before
    moved = shutil.copytree(pairs, tmp_path / "moved")
    assert "goes on with other options" not in train(moved, run, "--backbone", backbone, "--max-epoch", 2).output


def test_a_finished_training_is_not_trained_again(pairs, backbone, run):
    """Its weights stay those of the former rate, which is said."""
    before = saved(run)
    again = train(pairs, run, "--backbone", backbone, "--lr", "2e-3", "--max-epoch", 1)
    assert "now 0.002; past epochs are not trained again; to train them with these, give another" in again.output
    assert same_tensors(saved(run), before)


def test_going_on_within_an_epoch_of_other_batches(pairs, backbone, tmp_path):
    train(pairs, tmp_path, "--backbone", backbone, "--max-update", 1)
    refused = train(pairs, tmp_path, "--backbone", backbone, "--max-epoch", 2, "--update-freq", 2, succeed=False)
    assert "stands after 1 batches of epoch 1, within an update of --update-freq 2: give the one" in refused.last_line


@pytest.mark.parametrize("overrides", [{}, {"weight_decay": 0.25}])
def test_the_optimizer_goes_on_as_the_options_say(pairs, backbone, run, overrides):
    options = ["--backbone", backbone, "--weight-decay", 0.5, "--adam-betas", "(0.5, 0.75)", "--lr", "2e-3"]
    resumed = train(pairs, run, *options, "--optimizer-overrides", repr(overrides), "--max-epoch", 2)
    assert "--weight-decay 0.0, now 0.5" in resumed.output
    state = torch.load(run / "checkpoint_last.pt", weights_only=True)
    ((group,), moments) = (state["last_optimizer_state"][name] for name in ("param_groups", "state"))
    assert group["weight_decay"] == overrides.get("weight_decay", 0.5)
    assert tuple(group["betas"]) == (0.5, 0.75) and group["lr"] == 2e-3
    assert {moment["step"] for moment in moments.values()} == {6}  # 3 of each epoch


def test_the_best_score_of_another_training_is_no_best_score(pairs, backbone, run, tmp_path):
    """Nor is it with --reset-dataloader, which fairseq reads as the same training on other data."""
    state = torch.load(run / "checkpoint_last.pt", weights_only=True)
    state["extra_state"]["best"] = 100.0
    torch.save(with_progress_checksums(state), run / "checkpoint_last.pt")
    options = ["--backbone", backbone, "--max-epoch", 2, "--lr", 0, "--restore-file", run / "checkpoint_last.pt"]
    train(pairs, tmp_path / "other", *options, "--reset-dataloader")
    assert (tmp_path / "other" / "checkpoint_best.pt").is_file()
    train(pairs, tmp_path / "same", *options)
    assert not (tmp_path / "same" / "checkpoint_best.pt").exists()


def test_a_start_from_the_weights_may_be_any(pairs, backbone, run, tmp_path):
    reset = ["--reset-optimizer", "--reset-dataloader", "--reset-meters", "--reset-lr-scheduler"]
    started = ["--restore-file", run / "checkpoint_last.pt", *reset, "--prompt-position", 1, "--seed", 3]
    for number, options in enumerate([started, ["--finetune-from-model", run / "checkpoint_last.pt", "--seed", 3]]):
        finished = train(pairs, tmp_path / str(number), "--backbone", backbone, "--lr", 0, "--max-epoch", 1, *options)
        assert "goes on with other options" not in finished.output
        assert same_tensors(saved(tmp_path / str(number)), saved(run))


def test_a_folder_that_another_training_writes_to(pairs, backbone, tmp_path):
    with another_process(tmp_path) as process:
        refused = train(pairs, tmp_path, "--backbone", backbone, succeed=False)
    assert f"belongs to a training that is still running (process {process} on" in refused.last_line
    assert not list(tmp_path.glob("*.pt"))


SMALL = 1e-5  # with it no accuracy is better than that of the first epoch
PLATEAU = ["--lr-scheduler", "reduce_lr_on_plateau", "--lr-shrink", 0.5]


def test_the_rate_is_that_of_a_run_that_was_never_stopped(pairs, backbone, tmp_path):
    usual = ["--backbone", backbone, *PLATEAU, "--lr", SMALL, "--lr-patience", 1, "--save-interval-updates", 2]
    whole = train(pairs, tmp_path / "whole", *usual, "--max-epoch", 4)
    assert whole.log("train_lr") == [SMALL, SMALL, SMALL, SMALL / 2]
    parts = [train(pairs, tmp_path / "parts", *usual, "--max-epoch", epoch) for epoch in (1, 2, 3, 4)]
    assert [rate for part in parts for rate in part.log("train_lr")] == whole.log("train_lr")
    assert same_tensors(saved(tmp_path / "whole"), saved(tmp_path / "parts"))


def test_another_rate_is_taken_by_a_new_schedule_alone(pairs, backbone, tmp_path):
    usual = ["--backbone", backbone, *PLATEAU]
    train(pairs, tmp_path, *usual, "--lr", SMALL, "--max-epoch", 3)
    refused = train(pairs, tmp_path, *usual, "--lr", 1e-3, "--max-epoch", 4, succeed=False)
    assert f"was trained with --lr {SMALL}, now 0.001: give the same" in refused.last_line
    anew = train(pairs, tmp_path, *usual, "--lr", 1e-3, "--reset-lr-scheduler", "--max-epoch", 4)
    assert anew.log("train_lr") == [1e-3]
