"""What a sweep does with runs that succeed, fail, or were finished by a job that outlived its sweep."""

import json

import pytest
import torch

from fairseq_idpg.out_of_memory import refuse_batch
from fairseq_idpg.tasks.task import DIVERGED
from preprocess.errors import InputError
from run_scripts.run import perform
from run_scripts.run.experiment import Experiment
from run_scripts.run.records import append_record, failure, read_records
from run_scripts.sweep.jobs import Stage, missing

DONE = {"status": "done", "dev": 70.0, "test": 60.0, "seconds": 5.0}
FAILED = {"status": "failed", "error": "the job died"}
LOST = failure("fairseq-train ended with status 1: the run has diverged: the loss is NaN (log: x)")
FULL = failure("fairseq_idpg: update 3: a batch of 16 x 300 tokens does not fit into memory (CUDA out of memory.)")
BACKBONE = __file__  # any file
RUNS = {name: Experiment("RTE", "m-idpg-phm", 1e-3, seed, "", BACKBONE, row="row") for seed, name in enumerate("abc")}


@pytest.fixture(autouse=True)
def any_file(monkeypatch):
    monkeypatch.setattr(perform, "backbone_digest", lambda path: "ab" * 32)


class Job:
    def __init__(self, record):
        self.result, self.looks, self.cancelled = record, 0, False

    def done(self):
        self.looks += 1
        return self.looks > 1

    def record(self):
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result

    def cancel(self):
        self.cancelled = True


class Cluster:
    """Two jobs at a time; ``outcomes``: run -> what its attempts come to, () for success."""

    interval = 0.0

    def __init__(self, **outcomes):
        self.outcomes, self.started, self.jobs = {run: list(found) for run, found in outcomes.items()}, [], []

    def start(self, request):
        if sum(job.looks < 2 for job in self.jobs) == 2:
            return None
        self.started.append(request.run)
        found = self.outcomes.get(request.run)
        result = found.pop(0) if found else DONE
        self.jobs.append(Job(result if isinstance(result, BaseException) else {"run": request.run, **result}))
        return self.jobs[-1]


def finish(results, cluster):
    return Stage(RUNS, results, cluster, False).finish()


@pytest.mark.parametrize(
    ("outcomes", "failed", "started", "next_time"),
    [
        ([FAILED], 0, "abca", ""),  # tried once more, after the others
        ([FAILED, FAILED], 1, "abca", "a"),
        ([LOST], 0, "abc", ""),  # diverged, which is a result
        ([FULL], 1, "abc", "a"),
    ],
)
def test_a_run_that_fails(tmp_path, capsys, outcomes, failed, started, next_time):
    cluster = Cluster(a=outcomes)
    assert finish(tmp_path, cluster) == failed and cluster.started == [*started]
    records = {record["run"]: record for record in read_records(tmp_path)}
    assert records["b"]["status"] == records["c"]["status"] == "done"
    assert outcomes[-1]["error"] in capsys.readouterr().out
    if outcomes != [FAILED]:  # and so is recorded with what it was
        facts = {**outcomes[-1], "row": "row", "task": "RTE", "setting": "full", "k": None, "seed": 0, "position": 0}
        assert records["a"].items() >= facts.items() and not {"dev", "test"} & set(records["a"])
    again = Stage(RUNS, tmp_path, Cluster(), False)
    assert again.finish() == 0 and again.cluster.started == [*next_time]
    assert again.diverged == (outcomes == [LOST]) and missing(RUNS, tmp_path) == []


def test_why_runs_fail():
    """By the words of the plugin, of fairseq and of torch; not by the names of folders."""
    with pytest.raises(InputError) as no_room, refuse_batch(torch.zeros(1, 1), "give less"):
        raise RuntimeError("out of memory")
    messages = {f"x: {DIVERGED}: y": "diverged", "Your loss is probably exploding": "diverged"}
    messages |= {str(no_room.value): "out of memory", "torch.OutOfMemoryError: CUDA out of memory.": "out of memory"}
    messages |= {"the job was killed by signal 9": None, "KeyError: 3 (log: /out of memory/x.log)": None}
    assert {text: failure(text)["reason"] for text in messages} == messages


def test_what_is_done_is_not_run_again(tmp_path):
    append_record(tmp_path, {"run": "a", **DONE})
    (tmp_path / "runs" / "b").mkdir(parents=True)
    (tmp_path / "runs" / "b" / "record.json").write_text(json.dumps({"run": "b", **DONE, "dev": 1.0}))
    assert finish(tmp_path, cluster := Cluster()) == 0 and cluster.started == ["c"]
    assert {record["run"]: record["dev"] for record in read_records(tmp_path)} == {"a": 70.0, "b": 1.0, "c": 70.0}


def test_jobs_are_cancelled_when_the_sweep_ends_early(tmp_path):
    cluster = Cluster(a=[KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        finish(tmp_path, cluster)
    assert [job.cancelled for job in cluster.jobs] == [False, True]
