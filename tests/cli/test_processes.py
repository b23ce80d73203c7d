"""What other processes and threads meet, and what the plugin finds when it is imported."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.folders import ROOT

LINE = "fairseq_idpg: --data x is gone: give another"
SPAWNED = """
import torch

def refuse(rank, message):
    from preprocess.errors import InputError
    raise InputError(message)

if __name__ == "__main__":
    import fairseq_cli.train
    import fairseq_idpg
    torch.multiprocessing.spawn(refuse, ("--data x is gone: give another",), nprocs=2)
"""


def python(*arguments: object, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-W", "ignore", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True)


def test_bad_input_in_processes_that_torch_spawned(tmp_path):
    (tmp_path / "script.py").write_text(SPAWNED)
    ended = python(tmp_path / "script.py", PYTHONPATH=str(ROOT))
    said = [line for line in ended.stderr.splitlines() if "is gone" in line]
    assert ended.returncode == 1 and said == [LINE] and "Traceback" not in ended.stderr


def test_another_fairseq_is_refused():
    """As fairseq 0.12.2, which lacks a name that is used."""
    module = "fairseq.criterions.sentence_prediction"
    ended = python("-c", f"import {module} as module; del module.pearson_and_spearman; import fairseq_idpg")
    assert ended.stderr.splitlines()[-1].startswith("ImportError: fairseq_idpg needs fairseq-fixed 0.12.3.1")


def test_threads_that_wait_do_not_spin():
    """OpenMP is told so, unless somebody has said otherwise."""
    code = "import os; before = os.environ.pop('OMP_WAIT_POLICY', None); import fairseq_idpg"
    assert python("-c", f"{code}; print(os.environ['OMP_WAIT_POLICY'])").stdout.splitlines()[-1] == "PASSIVE"


@pytest.mark.parametrize("name", ["predict", "serve", "export", "encode", "count", "analysis"])
def test_commands_start_without_torch(name, tmp_path):
    """As ``python -m`` and as an installed script, up to --help; predict up to a file that is missing, too."""
    script = tmp_path / f"idpg-{name}"
    script.write_text(f"import runpy; runpy.run_module('fairseq_idpg.{name}', run_name='__main__')")
    commands = [("-m", f"fairseq_idpg.{name}", "--help"), (script, "--help")]
    if name == "predict":
        commands.append((*commands[0][:2], "--path", "gone.pt", "--text", "-"))
    for command in commands:
        ended = python("-X", "importtime", *command, PYTHONPATH=str(ROOT))
        assert ended.returncode == ("gone.pt" in command) and "argparse" in ended.stderr
        assert "torch" not in ended.stderr
