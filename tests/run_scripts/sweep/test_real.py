"""Whole sweeps at tiny size: through Slurm's commands, and killed on the way, with the same results."""

import os
import signal
import sys
from pathlib import Path

import pytest

from run_scripts.publish import main as publish
from run_scripts.sweep import __main__ as sweep
from run_scripts.sweep.jobs import Slurm
from tests.command_line import FORKS, until
from tests.run_scripts import tiny

EPOCHS = 8
# sbatch starts a copy of the script, as Slurm does (submitit moves its file at once), as a job in the background;
# squeue is not asked; sacct says what has become of jobs.
COMMANDS = {
    "sbatch": """
for last; do :; done
number=$(($(cat "$SLURM_JOBS/count" 2>/dev/null || echo 100) + 1)); echo $number >"$SLURM_JOBS/count"
job="$SLURM_JOBS/$number"
cp "$last" "$job.sh"
(SLURM_JOB_ID=$number SLURM_NTASKS=1 bash "$job.sh"; : >"$job.done") >"$job.log" 2>&1 &
echo "Submitted batch job $number"
""",
    "srun": """
while [ "${1#--}" != "$1" ]; do case $1 in --output | --error) shift ;; esac; shift; done
exec "$@"
""",
    "sacct": """
echo "JobID|State|NodeList"
for script in "$SLURM_JOBS"/*.sh; do
  number=$(basename "$script" .sh)
  if [ -e "$SLURM_JOBS/$number.done" ]; then echo "$number|COMPLETED|here"; else echo "$number|RUNNING|here"; fi
done
""",
    "scancel": "exit 0",
}


@pytest.fixture(scope="module")
def config(world, tmp_path_factory):
    return world.config(tmp_path_factory.mktemp("config"), tasks=["MRPC"], max_epoch=EPOCHS)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A folder with Slurm's commands; (folder, where their jobs are)."""
    return tiny.commands(tmp_path_factory.mktemp("slurm"), **COMMANDS), tmp_path_factory.mktemp("slurm-jobs")


@pytest.fixture(scope="module")
def uninterrupted(config, slurm, quick_jobs, tmp_path_factory):
    results = tmp_path_factory.mktemp("uninterrupted")
    commands, jobs = slurm
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(commands), prepend=os.pathsep)
        patch.setenv("SLURM_JOBS", str(jobs))
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setattr(Slurm, "interval", 0.5)
        run(config, results, "--cluster", "slurm", "--slurm", "partition=long", "gpus_per_node=0")
    return results


def run(config, results, *options):
    sweep.main([str(config), "--results", str(results), *options])


def test_slurm_gets_a_job_for_each_run(uninterrupted, slurm):
    scripts = [path.read_text() for path in slurm[1].glob("*.sh")]
    assert len(scripts) == 2
    assert all(f"#SBATCH --{given}" in scripts[0] for given in ("partition=long", "cpus-per-task=4", "gpus-per-node=0"))


def test_records_say_how_they_came_about(uninterrupted, world):
    found = tiny.records(uninterrupted)
    assert sorted(record["seed"] for record in found.values()) == [1, 2]
    for run_name, record in found.items():
        expected = {"status": "done", "row": "m-idpg-phm", "method": "m-idpg-phm", "setting": "full", "position": 0}
        expected |= {"prompt_length": 5, "selection": "clean", "metric": "acc_and_f1", "data": f"{world.data}/MRPC-bin"}
        assert record.items() >= {**expected, "examples": {"dev": 8, "test": 13}}.items()
        test = record["scores"]["test"]
        assert record["test"] == test["acc_and_f1"] == pytest.approx((test["accuracy"] + test["f1"]) / 2)
        updates, scores = zip(*record["dev_curve"])
        assert len(updates) == EPOCHS and updates[record["best_epoch"] - 1] == record["best_update"]
        assert max(scores) == pytest.approx(record["dev"], abs=0.06) and len(record["data_sha256"]) == 64
        assert 100 < record["peak_mib"] < 10_000 and record["seconds"] > 0
        assert record["options"]["model"]["phm_n"] == 4 and {"torch", "fairseq_idpg"} <= set(record["versions"])
        assert record["backbone"]["path"] == str(world.backbone) and len(record["backbone"]["sha256"]) == 64
        folder = uninterrupted / "runs" / run_name
        assert (folder / "checkpoint_best.pt").exists() and not (folder / "checkpoint_last.pt").exists()


def test_a_sweep_goes_on_from_published_records(config, uninterrupted, tmp_path, capsys):
    publish([str(uninterrupted), "--out", str(tmp_path / "results.jsonl")])
    published = (tmp_path / "results.jsonl").read_text()
    run(config, tmp_path, "--dry-run")
    assert "0 of 2 runs are missing" in capsys.readouterr().out
    run(config, tmp_path)
    assert (tmp_path / "results.jsonl").read_text() == published and not list(tmp_path.glob("runs/*"))


def forked_sweep(config, results, python):
    os.setsid()
    sys.stdout, sys.stderr, sys.executable = open(os.devnull, "w"), open(os.devnull, "w"), python
    run(config, results)


def counts(results: Path, what: str) -> list[int]:
    """How often something is in the log of each run that was started, the most first."""
    return sorted((log.read_text().count(what) for log in (results / "runs").glob("*/train.log")), reverse=True)


def test_killed_a_sweep_ends_as_if_nothing_had_been(config, uninterrupted, in_process, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    killed = FORKS.Process(target=forked_sweep, args=(config, tmp_path, sys.executable))
    killed.start()
    until(lambda: sum(counts(tmp_path, "end of epoch")))
    os.killpg(killed.pid, signal.SIGKILL)  # with its job
    killed.join()
    assert sum(counts(tmp_path, "end of epoch")) < EPOCHS and not (tmp_path / "results.jsonl").exists()

    (tmp_path / "results.jsonl").write_text('{"run": "tor')
    run(config, tmp_path)
    assert "was torn" in capsys.readouterr().err
    assert counts(tmp_path, "=== started") == [2, 1]
    assert counts(tmp_path, "Loaded checkpoint") == [1, 0]  # the second time, from its last epoch
    assert tiny.outcome(tmp_path) == tiny.outcome(uninterrupted)
    caches = [list((folder / "cache").glob("*.npy")) for folder in (tmp_path, uninterrupted)]
    assert len(caches[0]) == len(caches[1]) == 3  # M(x) of train, valid and test, once for both runs
