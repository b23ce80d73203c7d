"""The scripts: what they call, and a supplementary training and a task from its backbone as they do it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
import torch
import yaml

from run_scripts import train
from run_scripts.run.experiment import backbone_digest
from tests.folders import ROOT
from tests.run_scripts.tiny import FLAGS, commands

TASKS = ("CR", "MR", "SUBJ", "MPQA", "SST-2", "QNLI", "RTE", "MRPC", "QQP", "STS-B", "MNLI")
ARGUMENTS = ["--backbone", "backbone/model.pt", "--arch", "roberta_idpg", *FLAGS]
SHOW = 'printf "%s\\n" "$PYTHONPATH" "$PWD" "$@"'


@pytest.fixture
def shown(tmp_path):
    """The arguments with which a script calls Python."""
    root = tmp_path / "a root"
    (root / "run_scripts").mkdir(parents=True)
    for script in (ROOT / "run_scripts").glob("*.sh"):
        shutil.copy(script, root / "run_scripts")
    path = f"{commands(root / 'bin', python=SHOW)}{os.pathsep}{os.environ['PATH']}"

    def run(name, *words):
        done = subprocess.run(
            ["bash", os.path.join("a root", "run_scripts", name), *words],
            env={**os.environ, "PATH": path, "PYTHONPATH": "", "CDPATH": "."},  # by which cd prints what it has found
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        path_of_python, place, *arguments = done.stdout.splitlines()
        assert (path_of_python, place) == (str(root), str(tmp_path))
        return arguments

    return run


def test_a_script_for_each_task(shown):
    for task in TASKS:
        arguments = shown(f"{task.lower()}.sh", "--lr", "5e-4", "--method", "a b")
        assert arguments == ["-m", "run_scripts.train", task, "--lr", "5e-4", "--method", "a b"]
    arguments = shown("mnli_supplementary.sh", "--position", "4", "--out", "x.pt")
    assert arguments == ["-m", "run_scripts.train", "MNLI", "--supplementary", "--position", "4", "--out", "x.pt"]


def test_the_pipeline_takes_values_behind_an_equals_sign(shown):
    """Without, --results=DIR would be the sweep's alone, and the last one, the script's own, would count."""
    arguments = shown("supplementary_pipeline.sh", "--dry-run", "--pairs=0:1", "--results=out", "--jobs=2")
    asked = ["--jobs", "2", "--set", "positions=[[0,1]]", "rows=[prompt-tuning,s-idpg-phm]", "--results", "out"]
    assert arguments[3:] == ["--dry-run", *asked]
    arguments = shown("supplementary_pipeline.sh", "--dry-run", "--backbone", "it's a.pt", "--mnli", "'m'")
    found = {key: yaml.safe_load(value) for key, value in (word.split("=", 1) for word in arguments if "=" in word)}
    assert found == {"backbone": "it's a.pt", "supplementary.data": "'m'"}


@pytest.fixture(scope="module")
def supplementary(world, quick_jobs):
    """The path of a backbone made with prompts on MNLI, as seen from the folder of the world."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(world.folder)
        words = ["--method", "prompt-tuning", "--position", "4", "--max-epoch", "2", "--batch-size", "8"]
        words += ["--lr", "1e-3", "--results", "mnli", "--out", "made/mnli.pt"]
        train.main(["MNLI", "--supplementary", *ARGUMENTS, *words])
    return "made/mnli.pt"


def read(path):
    return torch.load(path, weights_only=True)


def test_supplementary_training_leaves_a_backbone(world, supplementary):
    record = json.loads((world.folder / "mnli" / "results.jsonl").read_text())
    assert (record["task"], record["supplementary"], record["position"]) == ("MNLI", True, 4)
    assert record["trainable"] > 5 * 32 and record["status"] == "done"
    made, before = read(world.folder / supplementary), read(world.backbone)
    assert made["last_optimizer_state"] is None
    name = "encoder.sentence_encoder.layers.0.fc1.weight"
    assert not torch.equal(made["model"][name], before["model"][name])
    assert made["cfg"]["optimization"]["lr"] == [1e-3] and made["cfg"]["task"]["swap_pairs"] == "append"


def test_a_task_from_that_backbone(world, supplementary, monkeypatch, capsys):
    """With relative paths, keeping the prompts: at this learning rate they stay as they were."""
    words = ["--method", "prompt-tuning", "--position", "1", "--supplementary-position", "4", "--lr", "1e-9"]
    words += ["--backbone", supplementary, "--init-prompts-from", supplementary, "--max-update", "1", "--k", "8"]
    monkeypatch.chdir(world.folder)
    train.main(["RTE", *ARGUMENTS, *words, "--dev", "4", "--results", "rte"])
    record = json.loads((world.folder / "rte" / "results.jsonl").read_text())
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("RTE K=8 prompt-tuning, position 4:1, lr 1e-09, seed 1: accuracy ")
    assert record["backbone"]["sha256"] == backbone_digest(str(world.folder / supplementary))
    assert (record["position"], record["supplementary_position"], record["k"]) == (1, 4, 8)
    assert (record["setting"], record["best_epoch"], record["trainable"]) == ("few-shot", 1, 5 * 32)
    made = read(world.folder / "rte" / "runs" / record["run"] / "checkpoint_best.pt")
    before = read(world.folder / supplementary)["model"]
    kept = [name for name in before if name.startswith("method.")]
    assert kept and all(torch.allclose(made["model"][name], before[name], atol=1e-6) for name in kept)
