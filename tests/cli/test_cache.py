"""--representation-cache through the command line."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fairseq_idpg.representations.kinds import sentence_representation
from tests.folders import train, validate, write_backbone
from tests.helpers import logits, pair_batch, tiny_model

LOSSES = {"abs": 2e-3}  # the log has three decimals


def test_same_run_as_without(trained, pairs, backbone, tmp_path):
    whole, _ = trained
    options = ["--backbone", backbone, "--max-epoch", 4, "--representation-cache", tmp_path / "cache"]
    run = train(pairs, tmp_path / "run", *options)
    for key in ("train_loss", "valid_loss"):
        assert run.log(key) == pytest.approx(whole.log(key), **LOSSES)
    shapes = sorted(np.load(path).shape for path in (tmp_path / "cache").glob("*.npy"))
    assert shapes == [(13, 32), (24, 32)] and run.output.count("M(x) of") == 2


def test_shared_by_seeds_methods_and_validation(pairs, backbone, tmp_path):
    cache = ["--representation-cache", tmp_path / "cache"]
    train(pairs, tmp_path / "first", "--backbone", backbone, "--max-epoch", 1, *cache)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").glob("*.npy")}
    options = ["--backbone", backbone, "--max-epoch", 1, "--seed", 5, "--method", "s-idpg-dnn", *cache]
    second = train(pairs, tmp_path / "second", *options, without="--phm-n")
    assert "M(x) of" not in second.output
    checked = validate(pairs, tmp_path / "second" / "checkpoint_last.pt", *cache)
    assert checked.log("valid_loss") == pytest.approx(second.log("valid_loss")[-1:], **LOSSES)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").glob("*.npy")} == before


def test_one_backbone_pass_a_step():
    model, passes = tiny_model(method="m-idpg-phm", phm_n=4), []
    representation = sentence_representation(model.encoder, pair_batch())
    model.encoder.sentence_encoder.layers[0].register_forward_hook(lambda *_: passes.append(1))
    with torch.no_grad():
        uncached = logits(model, pair_batch())
        assert len(passes) == 2
        forward = model.forward
        model.forward = lambda *args, **more: forward(*args, representation=representation, **more)
        assert torch.allclose(logits(model, pair_batch()), uncached, atol=1e-5) and len(passes) == 3


def test_no_cache_without_the_backbone_that_names_it(pairs, tmp_path):
    """Two whole models without their backbones would share rows."""
    backbone = write_backbone(tmp_path / "model.pt", seed=1)
    run = train(pairs, tmp_path / "run", "--backbone", backbone, "--max-epoch", 1, "--save-full-model")
    backbone.unlink()
    checkpoint = tmp_path / "run" / "checkpoint_last.pt"
    checked = validate(pairs, checkpoint, "--representation-cache", tmp_path / "cache")
    assert checked.log("valid_loss") == run.log("valid_loss") and not (tmp_path / "cache").exists()
    assert f"--representation-cache is not used: its rows are named by --backbone {backbone}" in checked.output
