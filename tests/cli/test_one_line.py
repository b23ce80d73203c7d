"""Bad input that fairseq's commands meet in another thread or process, or while they load, is one line all the same."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.folders import ROOT, train

LINE = "fairseq_idpg: --data x is gone: give another"
PLUGIN = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import fairseq_idpg
from fairseq_idpg.tasks.prompted_dataset import PromptedDataset
from preprocess.errors import InputError

def refuse(self, index):
    raise InputError("--data x is gone: give another")

PromptedDataset.__getitem__ = refuse
"""
SPAWNED = """
import sys
import torch

def refuse(rank, message):
    from preprocess.errors import InputError
    try:
        raise InputError(message)
    except InputError:
        if sys.argv[1] == "hidden":
            raise Exception("another")
        raise

if __name__ == "__main__":
    import fairseq_cli.train
    import fairseq_idpg
    torch.multiprocessing.spawn(refuse, ("--data x is gone: give another",), nprocs=2)
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_while_data_is_loaded(pairs, backbone, tmp_path, workers):
    plugin = tmp_path / "plugin_without_data"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(PLUGIN)
    options = ["--user-dir", plugin, "--backbone", backbone, "--num-workers", workers]
    finished = train(pairs, tmp_path / "run", *options, succeed=False)
    assert finished.last_line == LINE and "Traceback" not in finished.output, finished.output[-3000:]
    assert finished.output.count("is gone") == 1 and not list((tmp_path / "run").glob("*.pt"))


@pytest.mark.parametrize(
    "precisions", [["--fp16", "--bf16"], ["--memory-efficient-fp16", "--bf16"], ["--fp16", "--tpu"]]
)
def test_while_arguments_are_read(pairs, backbone, tmp_path, precisions):
    finished = train(pairs, tmp_path / "run", "--backbone", backbone, *precisions, succeed=False)
    assert finished.last_line.endswith(
        "fairseq_idpg: --fp16 with --bf16 or --tpu: a run has one precision: leave one out"
    )
    assert finished.status == 1 and "Traceback" not in finished.output and not (tmp_path / "run").exists()


@pytest.mark.parametrize("told", ["plain", "hidden"])
def test_in_processes_that_torch_spawned(tmp_path, told):
    script = tmp_path / "script.py"
    script.write_text(SPAWNED)
    command = [sys.executable, "-W", "ignore", str(script), told]
    ended = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
    said = [line for line in ended.stderr.splitlines() if "is gone" in line]
    assert ended.returncode == 1
    if told == "plain":
        assert said == [LINE] and "Traceback" not in ended.stderr
    else:
        assert "Exception: another" in ended.stderr and LINE not in said


@pytest.mark.parametrize("option", ["--phm-n=8", "--generator-sharing=S"])
def test_while_weights_are_loaded(trained, pairs, backbone, tmp_path, option):
    """fairseq says there of any error that the weights cannot be loaded."""
    start = ["--restore-file", trained[1] / "checkpoint_best.pt", "--reset-optimizer", "--reset-dataloader"]
    finished = train(pairs, tmp_path / "run", "--backbone", backbone, *start, option, succeed=False)
    assert finished.last_line.startswith("fairseq_idpg: ") and "Traceback" not in finished.output
    assert "Cannot load model parameters" not in finished.output


@pytest.mark.parametrize("change", ["del module.pearson_and_spearman", "sys.modules[module.__name__] = None"])
def test_another_fairseq_is_refused(change):
    """As fairseq 0.12.2, which lacks a name that is used, or a module that cannot be imported."""
    code = f"import sys, fairseq.criterions.sentence_prediction as module; {change}; import fairseq_idpg"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    last = ended.stderr.splitlines()[-1]
    assert ended.returncode == 1 and last.startswith("ImportError: fairseq_idpg needs fairseq-fixed 0.12.3.1")
    assert last.endswith("pip install --no-deps fairseq-fixed==0.12.3.1")
