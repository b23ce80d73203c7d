"""--representation-cache and --state-cache through the command line."""

import numpy as np
import pytest
import torch

from tests.folders import train, validate, write_backbone

LOSSES = {"abs": 2e-3}  # the log has three decimals
KEYS = ("train_loss", "valid_loss")


def test_same_run_as_without_shared_by_seeds_methods_and_validation(trained, pairs, backbone, tmp_path):
    cache = ["--representation-cache", tmp_path / "cache"]
    run = train(pairs, tmp_path / "run", "--backbone", backbone, "--max-epoch", 4, *cache)
    for key in KEYS:
        assert run.log(key) == pytest.approx(trained[0].log(key), **LOSSES)
    shapes = sorted(np.load(path).shape for path in (tmp_path / "cache").glob("*.npy"))
    assert shapes == [(13, 32), (24, 32)] and run.output.count("M(x) of") == 2
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").glob("*.npy")}
    options = ["--backbone", backbone, "--max-epoch", 1, "--seed", 5, "--method", "s-idpg-dnn", *cache]
    second = train(pairs, tmp_path / "second", *options, without="--phm-n")
    assert "M(x) of" not in second.output
    checked = validate(pairs, tmp_path / "second" / "checkpoint_last.pt", *cache)
    assert checked.log("valid_loss") == pytest.approx(second.log("valid_loss")[-1:], **LOSSES)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").glob("*.npy")} == before


def test_no_cache_without_the_backbone_that_names_it(pairs, tmp_path):
    """Two whole models without their backbones would share rows."""
    backbone = write_backbone(tmp_path / "model.pt", seed=1)
    run = train(pairs, tmp_path / "run", "--backbone", backbone, "--max-epoch", 1, "--save-full-model")
    backbone.unlink()
    checkpoint = tmp_path / "run" / "checkpoint_last.pt"
    checked = validate(pairs, checkpoint, "--representation-cache", tmp_path / "cache")
    assert checked.log("valid_loss") == run.log("valid_loss") and not (tmp_path / "cache").exists()
    assert f"--representation-cache is not used: its rows are named by --backbone {backbone}" in checked.output


LATE = ["--method", "lpt-mppg", "--max-epoch", 3, "--dropout", 0, "--attention-dropout", 0]


def trained_with(data, save_dir, backbone, *options):
    return train(data, save_dir, "--backbone", backbone, *LATE, *options, without="--phm-n")


def same_weights(one, other, tolerance):
    states = [torch.load(folder / "checkpoint_last.pt", weights_only=True)["model"] for folder in (one, other)]
    one, other = ({name: value.float() for name, value in s.items() if torch.is_tensor(value)} for s in states)
    torch.testing.assert_close(one, other, atol=tolerance, rtol=0)


@pytest.fixture(scope="module")
def cached(place, pairs, backbone):
    folder, cache = place / "cached", place / "states"
    return trained_with(pairs, folder, backbone, "--state-cache", cache), folder, cache


def test_same_run_as_without_kept_states(cached, pairs, backbone, tmp_path):
    """Rows are computed in other batches than those of training, so sums are rounded otherwise; also in validation."""
    found, found_dir, cache = cached
    whole = trained_with(pairs, tmp_path, backbone)
    for key in KEYS:
        assert len(whole.log(key)) == 3 and found.log(key) == pytest.approx(whole.log(key), **LOSSES)
    same_weights(tmp_path, found_dir, 1e-5)
    assert [np.load(path).shape[1] for path in cache.glob("*.npy")] == [32, 32]
    checked = validate(pairs, found_dir / "checkpoint_last.pt", "--state-cache", cache)
    assert checked.log("valid_loss") == pytest.approx(found.log("valid_loss")[-1:], **LOSSES)


def test_resume_goes_on_bit_for_bit(cached, pairs, backbone, tmp_path):
    whole, whole_dir, cache = cached
    first = trained_with(pairs, tmp_path, backbone, "--state-cache", cache, "--max-epoch", 1)
    second = trained_with(pairs, tmp_path, backbone, "--state-cache", cache)
    assert "split train: states of" not in first.output + second.output
    for key in KEYS:
        assert first.log(key) + second.log(key) == whole.log(key)
    same_weights(whole_dir, tmp_path, 0)
