"""Where runs are executed: shares of this machine, and Slurm's commands."""

import os
import subprocess
import sys
import time

import pytest
import torch

from preprocess.errors import InputError
from run_scripts.run.experiment import Experiment
from run_scripts.run.fairseq_train import TORCHRUN
from run_scripts.run.fairseq_train import train as fairseq_train
from run_scripts.sweep.jobs import Local, Request, Slurm, SlurmJob, slurm_parameters
from tests.command_line import until
from tests.folders import ROOT
from tests.run_scripts.tiny import commands


@pytest.fixture
def request_of(tmp_path):
    experiment = Experiment("RTE", "m-idpg-phm", 1e-3, 1, "/data", "/model.pt", options=("--fp16",))
    return lambda run: Request(run, experiment, tmp_path, False)


@pytest.fixture
def local(tmp_path, monkeypatch):
    """A cluster of two jobs whose Python is something else."""

    def made(body):
        monkeypatch.setattr(sys, "executable", str(commands(tmp_path / "bin", python=body) / "python"))
        return Local(tmp_path / "jobs", 2, [])

    return made


def test_as_many_runs_as_jobs(local, request_of, tmp_path):
    cluster = local(f'sleep 60 & echo >"{tmp_path}/$4 has a child"; exec sleep 60')
    jobs = [cluster.start(request_of(run)) for run in "abc"]
    assert jobs[2] is None and not jobs[0].done()
    until((tmp_path / "a has a child").exists)
    text = (tmp_path / "runs" / "a" / "experiment.json").read_text()
    assert Experiment.from_json(text) == request_of("a").experiment
    jobs[0].cancel()
    assert jobs[0].done() and jobs[0].record()["error"].startswith("the job was killed by signal 15 (log: ")
    jobs[1].cancel()


def test_jobs_that_end_leave_their_slots_and_their_last_line(local, request_of):
    cluster = local("[ $4 = a ] && { echo Traceback; echo 'ValueError: no'; echo; }; exit 1")
    for run, error in (("a", "ValueError: no"), ("b", "the job ended with status 1"), ("c", "the job ended")):
        job = cluster.start(request_of(run))
        job.process.wait(timeout=300)
        assert job.done() and job.record()["status"] == "failed" and job.record()["error"].startswith(error)


def test_jobs_share_cores_and_gpus(monkeypatch, tmp_path):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    cluster = Local(tmp_path, None, [])
    assert cluster.jobs == 2 and [cluster.place(slot)["CUDA_VISIBLE_DEVICES"] for slot in range(3)] == ["0", "1", "0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-aa,3")
    assert [Local(tmp_path, 2, []).place(slot)["CUDA_VISIBLE_DEVICES"] for slot in range(2)] == ["GPU-aa", "3"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert Local(tmp_path, 1, []).place(0) == {"OMP_NUM_THREADS": str(os.cpu_count())}


SLURM = {  # commands in front of the others
    "sbatch": "echo Submitted batch job 7; echo x >>$(dirname $0)/submitted",
    "sacct": 'echo "JobID|State|NodeList"; echo "7|$(cat "$(dirname "$0")/state")|here"',
    **dict.fromkeys(("srun", "scancel"), "exit 0"),
}


def test_jobs_of_a_sweep_that_was_killed_are_taken_over(request_of, monkeypatch, tmp_path):
    folder, jobs = commands(tmp_path / "slurm", **SLURM), tmp_path / "jobs"
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    state, submitted = folder / "state", folder / "submitted"
    state.write_text("RUNNING")
    assert isinstance(Slurm(jobs, 1, []).start(request_of("a")), SlurmJob)
    cluster = Slurm(jobs, 1, [])
    assert cluster.start(request_of("a")).job.job_id == "7" and submitted.read_text() == "x\n"
    assert cluster.start(request_of("b")) is None  # --jobs 1
    state.write_text("CANCELLED")
    time.sleep(0.01)  # submitit asks sacct once in a millisecond at most
    Slurm(jobs, 1, []).start(request_of("a"))
    assert submitted.read_text() == "x\nx\n"
    commands(folder, sbatch="echo 'sbatch: error: invalid partition' >&2; exit 1")
    with pytest.raises(InputError, match="--cluster slurm: .*invalid partition"):
        Slurm(jobs, None, []).start(request_of("b"))


def test_settings_of_slurm(monkeypatch, tmp_path):
    assert slurm_parameters(["timeout_min=5", "nodes=1"])["time"] == 5
    monkeypatch.setenv("PATH", str(commands(tmp_path / "slurm", **SLURM)))
    with pytest.raises(InputError, match="--cluster slurm: .*timme"):
        Slurm(tmp_path / "jobs", 1, ["timme=5"])


def test_several_nodes_start_as_the_page_says(request_of, monkeypatch, tmp_path):
    """The script of a job, in a folder; its variable, as bash reads it, is the page's command."""
    bodies = {
        **SLURM,
        "sbatch": "cp $1 $(dirname $0)/script; echo Submitted batch job 7",
        "scontrol": "echo n1; echo n2",
    }
    folder = commands(tmp_path / "slurm", **bodies)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    Slurm(tmp_path / "jobs", 1, ["nodes=2", "tasks_per_node=8", "gpus_per_node=8"]).start(request_of("a"))
    script = (folder / "script").read_text()
    assert "#SBATCH --nodes=2\n" in script and "#SBATCH --ntasks-per-node=8\n" in script and "\nsrun" not in script
    export = next(line for line in script.splitlines() if TORCHRUN in line)
    environment = {**os.environ, "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]"}
    asked = ["bash", "-c", f'{export}; printf %s "${TORCHRUN}"']
    found = subprocess.run(asked, env=environment, capture_output=True, text=True).stdout
    page = (ROOT / "run_scripts" / "README.md").read_text().split("```text\n")[1].split("```")[0].replace("\\\n", "")
    page = page.replace('$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)', "n1")
    assert found.split() == page.replace("$SLURM_JOB_ID", "7").replace(" python ", f" {sys.executable} ").split()


def test_training_is_started_by_the_command_of_the_job(monkeypatch, tmp_path):
    monkeypatch.setenv(TORCHRUN, "echo started")
    fairseq_train(["fairseq-train", "data"], tmp_path / "log", False)
    assert "\nstarted -m run_scripts.run.fairseq_train data\n" in (tmp_path / "log").read_text()
