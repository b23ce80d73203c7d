"""What is found before the first run of a sweep starts: here what is taken; what is refused is in test_refusals.py."""

import pytest

from preprocess.data_folder import DataFolder
from preprocess.few_shot import few_shot
from run_scripts.run.experiment import Experiment
from run_scripts.sweep import __main__ as sweep
from run_scripts.sweep.stages import estimate
from tests.folders import renamed
from tests.run_scripts.report import made
from tests.run_scripts.tiny import IDPG


@pytest.fixture
def listed(world, tmp_path, capsys):
    def run(*words, **keys):
        sweep.main([str(world.config(tmp_path, **keys)), "--results", str(tmp_path / "results"), "--dry-run", *words])
        assert not (tmp_path / "results").exists()
        return capsys.readouterr().out.splitlines()

    return run


def test_a_dry_run_estimates_the_time_from_what_has_finished(tmp_path):
    """By the task's mean; a task without a finished run by that of all."""
    made.write(tmp_path, [made.run("lora", task, seconds=s) for task, s in (("CR", 120), ("CR", 240), ("MR", 900))])
    runs = {task: Experiment(task, "lora", 1e-3, 1, "", "") for task in ("CR", "RTE")}
    assert "about 10.0 minutes, by the 3 finished there" in estimate(["CR", "RTE"], runs, tmp_path)


def test_a_dry_run_lists_what_is_missing_and_leaves_nothing(listed, world, tmp_path):
    log = f"options.log-file={tmp_path / 'x.log'}"
    said = listed("--set", "seeds=[1,2,3]", log)
    count = f"3 of 3 runs are missing in {tmp_path / 'results'}"
    assert len(said) == 4 and said[-1] == f"{count}; no run has finished there to tell how long they take"
    assert "RTE m-idpg-phm, position 0, lr 0.01, seed 3 --cpu" in said[2] and f"--log-file {tmp_path}" in said[2]
    said = listed(supplementary={"data": str(world.data / "MNLI-bin")}, positions=[[0, 0], [0, 1]])
    assert "MNLI m-idpg-phm, position 0, lr 1e-05, seed 1" in said[0]
    assert said[-1] == "and then 4 runs that start from what these leave"


def test_folders_of_a_task_that_are_taken(listed, world, tmp_path):
    """Those of --efl, a few-shot copy, and labels in another order."""
    labels = {"entailment": "not_entailment", "not_entailment": "entailment"}
    efl = renamed(world.data / "RTE-bin", tmp_path / "own", labels)
    (efl / "preprocess.json").write_text('{"task": "CR"}')
    few = tmp_path / "few-bin"
    few_shot(DataFolder(world.data / "CR-bin"), 8, 8, 1, per_class=False, out=few)
    for row, folder in (("efl", efl), (IDPG, few)):
        said = listed(tasks=["CR"], data={"CR": str(folder)}, rows=[row], seeds=[1], dev_examples=2)
        assert said[-1].startswith("1 of 1 runs are missing")
