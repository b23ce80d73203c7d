"""--bf16 and --amp through the command line; on a CPU --fp16 is fairseq's own refusal."""

from __future__ import annotations

import pytest
import torch

from tests.folders import train, validate

METHODS = ["m-idpg-phm", "p-tuning-v2-kv", "compacter-shared", "p-tuning", "fine-tuning"]


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


def test_bf16_resumes(losses, pairs, backbone, tmp_path):
    options = ["--backbone", backbone, "--bf16"]
    train(pairs, tmp_path, *options, "--max-epoch", 1)
    resumed = train(pairs, tmp_path, *options, "--max-epoch", 2)
    whole, _ = losses("m-idpg-phm", "--bf16")
    # a checkpoint rounds the float32 weights that the optimizer changes
    assert resumed.log("train_loss") == pytest.approx(whole.log("train_loss")[1:], abs=0.005)


def test_bf16_with_a_cache(losses, tmp_path):
    cached, _ = losses("m-idpg-phm", "--bf16", "--representation-cache", tmp_path)
    whole, _ = losses("m-idpg-phm", "--bf16")
    assert cached.log("train_loss") == pytest.approx(whole.log("train_loss"), abs=0.02)


def test_amp_changes_nothing_on_a_cpu(losses):
    assert losses("m-idpg-phm", "--amp")[0].log("train_loss") == losses("m-idpg-phm")[0].log("train_loss")
