"""Real runs with adapters: training, resuming, validating, and checkpoints that never lose trained LayerNorms."""

from __future__ import annotations

import pytest
import torch

from tests.folders import same_tensors, train, validate
from tests.helpers import ALWAYS_SAVED
from tests.methods.adapters.presets import HEAD, LAYER_NORMS, OWN

OPTIONS = ["--method", "compacter-shared", "--adapter-hidden-size", 8]


def run(pairs, folder, backbone, *options, **more):
    return train(pairs, folder, "--backbone", backbone, *OPTIONS, *options, without="--phm-n", **more)


@pytest.fixture(scope="module")
def finished(pairs, backbone, tmp_path_factory):
    """(finished run, save folder) of four epochs."""
    folder = tmp_path_factory.mktemp("compacter")
    return run(pairs, folder, backbone, "--max-epoch", 4), folder


def model_of(folder):
    return torch.load(folder / "checkpoint_last.pt", weights_only=True)["model"]


def test_log_and_saved_tensors(finished):
    output = finished[0].output
    # 6 x 3 x (32 + 8) + 4^3 of the method; 7 LayerNorms of 2 x 32; 32 x 32 + 32 + 2 x 33 of the head
    assert "method compacter-shared: 2,354 trainable of" in output
    assert "method 784 (" in output and "head 1,122" in output and "frozen but for 448 that the method trains" in output
    assert "adapters: after attention and FFN of layers 0,1,2; hidden size 8" in output
    assert set(model_of(finished[1])) == OWN["compacter-shared"] | HEAD | LAYER_NORMS | ALWAYS_SAVED


def test_resuming_gives_the_losses_of_an_uninterrupted_run(finished, pairs, backbone, tmp_path):
    whole, folder = finished
    first = run(pairs, tmp_path, backbone, "--max-epoch", 2)
    second = run(pairs, tmp_path, backbone, "--max-epoch", 4)
    for key in ("train_loss", "valid_loss"):
        assert first.log(key) + second.log(key) == whole.log(key)
    assert same_tensors(model_of(tmp_path), model_of(folder))


def test_validate_gives_the_numbers_that_training_printed(finished, pairs):
    training, folder = finished
    again = validate(pairs, folder / "checkpoint_last.pt")
    assert again.log("valid_accuracy") == training.log("valid_accuracy")[-1:]
    assert again.log("valid_loss") == pytest.approx(training.log("valid_loss")[-1:], abs=1e-3)


def test_trained_layer_norms_are_not_loaded_into_a_frozen_backbone(finished, pairs, backbone):
    """They would be left out of the next checkpoint."""
    options = ["--train-layer-norms", "false", "--max-epoch", 6]
    line = run(pairs, finished[1], backbone, *options, succeed=False).last_line
    assert "was trained with --train-layer-norms true, now false" in line


def test_nor_is_a_run_started_from_them(finished, pairs, backbone, tmp_path):
    start = ["--restore-file", finished[1] / "checkpoint_last.pt"]
    start += ["--reset-optimizer", "--reset-dataloader", "--reset-meters"]
    line = run(pairs, tmp_path, backbone, *start, "--train-layer-norms", "false", succeed=False).last_line
    assert "frozen here: give the options it was trained with (--train-layer-norms true" in line


def test_adapters_as_a_backbone(finished, pairs, tmp_path):
    line = run(pairs, tmp_path, finished[1] / "checkpoint_last.pt", "--max-update", 1, succeed=False).last_line
    assert "holds prompts only; it was trained on the backbone" in line


def test_other_sizes_are_refused_on_resuming(finished, pairs, backbone):
    line = run(pairs, finished[1], backbone, "--adapter-hidden-size", 16, "--max-epoch", 6, succeed=False).last_line
    assert "was trained with --adapter-hidden-size 8, now 16" in line


def test_full_model_holds_everything(pairs, backbone, tmp_path):
    training = run(pairs, tmp_path, backbone, "--save-full-model", "--max-epoch", 1)
    assert "encoder.sentence_encoder.layers.2.fc1.weight" in model_of(tmp_path)
    loss = validate(pairs, tmp_path / "checkpoint_last.pt").log("valid_loss")
    assert loss == pytest.approx(training.log("valid_loss"), abs=1e-3)
