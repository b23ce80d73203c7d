"""fairseq-train on a GPU."""

import pytest
import torch

from tests.folders import train, validate

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
NO_DROPOUT = ["--dropout", 0, "--attention-dropout", 0, "--generator-dropout", 0]
PRECISIONS = {
    "float32": [],
    "float16": ["--fp16"],
    "float16, parameter by parameter": ["--fp16", "--fp16-no-flatten-grads"],
    "bfloat16": ["--bf16"],
    "amp": ["--amp"],
}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_training_is_that_of_the_cpu_and_resumes(pairs, backbone, tmp_path, precision):
    usual = ["--backbone", backbone, *NO_DROPOUT]
    cpu = train(pairs, tmp_path / "cpu", *usual, "--max-epoch", 2)
    on_gpu = [*usual, *PRECISIONS[precision]]
    first = train(pairs, tmp_path / "gpu", *on_gpu, "--max-epoch", 1, cpu=False)
    second = train(pairs, tmp_path / "gpu", *on_gpu, "--max-epoch", 2, cpu=False)
    close = 1e-3 if precision == "float32" else 3e-2
    for key in ("train_loss", "valid_loss"):
        assert first.log(key) + second.log(key) == pytest.approx(cpu.log(key), abs=close), key


def test_a_checkpoint_of_the_gpu_is_worth_the_same_on_both_devices(pairs, backbone, tmp_path):
    train(pairs, tmp_path, "--backbone", backbone, "--max-epoch", 1, cpu=False)
    cpu, gpu = (validate(pairs, tmp_path / "checkpoint_last.pt", cpu=cpu) for cpu in (True, False))
    assert gpu.log("valid_loss") == pytest.approx(cpu.log("valid_loss"), abs=1e-3)
