"""--bf16, --fp16 and --amp through the command line; on a CPU --fp16 needs --fp16-no-flatten-grads."""

import pytest
import torch

from tests.folders import train, validate
from tests.optim.test_half_precision import same

FP16 = ["--fp16", "--fp16-no-flatten-grads", "--fp16-scale-window", 3]  # flat gradients need a GPU


@pytest.mark.parametrize(
    ("options", "processes"),
    [
        (["--bf16", "--batch-size", 4, "--clip-norm", 0.5], 2),
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
    one, other = (torch.load(tmp_path / run / "checkpoint_last.pt", weights_only=True) for run in ("whole", "parts"))
    for part in ("model", "last_optimizer_state"):  # with the float32 weights and the counters
        assert same(one[part], other[part])


@pytest.mark.parametrize(("options", "dtype"), [(FP16, torch.float16), (["--bf16"], torch.bfloat16)])
def test_a_loaded_checkpoint_gives_the_numbers_of_its_training(pairs, backbone, tmp_path, options, dtype):
    """The model of a file is the one that was validated: the float32 weights beside it are for resuming alone."""
    printed = train(pairs, tmp_path, "--backbone", backbone, "--max-epoch", 2, *options).log("valid_loss")[-1]
    path = tmp_path / "checkpoint_last.pt"
    state = torch.load(path, weights_only=True)
    assert state["model"]["_extra_state"]["fp16"]["weights"]
    tensors = [value for value in state["model"].values() if torch.is_tensor(value) and value.is_floating_point()]
    assert tensors and {value.dtype for value in tensors} == {torch.float32}
    assert all(torch.equal(value, value.to(dtype).float()) for value in tensors)
    if dtype == torch.float16:
        assert validate(pairs, path, "--fp16").log("valid_loss") == [printed]
    assert validate(pairs, path).log("valid_loss") == pytest.approx([printed], abs=0.01)
