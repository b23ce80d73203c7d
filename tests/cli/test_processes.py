"""What other processes and threads meet, and what the plugin finds when it is imported."""

import os
import socket
import subprocess
import sys

import pytest
import torch

from tests.cli.test_cache import same_weights
from tests.command_line import until
from tests.folders import OF_TASK, ROOT, TRAINING, train

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


def test_two_launches_of_torchrun_train_as_one_process(pairs, backbone, tmp_path, python):
    """As on two machines; one of the two ends, and the same commands go on."""
    given = ["--backbone", backbone, "--dropout", 0, "--attention-dropout", 0, "--generator-dropout", 0]
    arguments = [pairs, *OF_TASK, *TRAINING, *given, "--num-workers", 0, "--cpu", "--save-dir", tmp_path / "two"]
    program = python.with_name("fairseq-train")

    def launch(epochs: int) -> list[subprocess.Popen]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            endpoint = f"127.0.0.1:{free.getsockname()[1]}"
        torchrun = ["--nnodes", 2, "--nproc_per_node", 1, "--rdzv_backend", "c10d", "--rdzv_endpoint", endpoint]
        command = [python, "-m", "torch.distributed.run", "--no-python", *torchrun, program, *arguments]
        command += ["--max-epoch", epochs]
        return [subprocess.Popen(list(map(str, command)), cwd=ROOT) for _ in range(2)]

    # the second machine goes down, and the first is stopped, which would wait for it for long
    launches = launch(200)
    until((tmp_path / "two" / "checkpoint_last.pt").exists)
    for each in reversed(launches):
        each.terminate()
        each.wait()
    state = torch.load(tmp_path / "two" / "checkpoint_last.pt", weights_only=True)
    epoch = state["extra_state"]["train_iterator"]["epoch"] + 1
    assert [each.wait(120) for each in launch(epoch)] == [0, 0]
    train(pairs, tmp_path / "one", *given, "--max-epoch", epoch, "--update-freq", 2)
    same_weights(tmp_path / "one", tmp_path / "two", 1e-5)


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


def test_sweeps_and_runs_start_without_torch(tmp_path):
    """Up to --help; a sweep up to what is wrong in its file, which names all that is missing."""
    file = tmp_path / "sweep.yaml"
    file.write_text("{backbone: gone.pt, data: gone, tasks: [CR, MR], rows: [m-idpg-phm], seed: [1]}")
    whole = ["--set", "rows=[lora]", "--dry-run"]
    for words in (["run_scripts.submit", "--help"], ["run_scripts.train", "CR", "--help"], ["run_scripts.sweep", file]):
        ended = python("-X", "importtime", "-m", *words)
        assert ended.returncode == (file in words) and "argparse" in ended.stderr and "torch" not in ended.stderr
    assert "key seed is unknown" in ended.stderr
    file.write_text(file.read_text().replace("seed:", "seeds:"))
    said = python("-m", "run_scripts.sweep", file, *whole).stderr.splitlines()
    assert len(said) == 1 and all(
        f"{path} does not exist" in said[0] for path in ("gone.pt", "gone/CR-bin", "gone/MR-bin")
    )
