"""The scripts: what they call, and a supplementary training as one of them does it."""

import json
import os
import shutil
import subprocess

import pytest
import torch

from run_scripts import train
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
        environment = {**os.environ, "PATH": path, "PYTHONPATH": "", "CDPATH": "."}  # the last: cd prints what it found
        command = ["bash", os.path.join("a root", "run_scripts", name), *words]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
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


def test_a_part_of_the_evidence(shown):
    module, sweep, config, *more = shown("evidence.sh", "minilm", "few-shot-more", "--dry-run")
    assert (module, sweep) == ("-m", "run_scripts.sweep") and config.endswith("configs/evidence/few-shot-more.yaml")
    assert more == ["--results", "results/evidence/minilm-few-shot", "--dry-run"]


def test_supplementary_training_leaves_a_backbone(world, quick_jobs, tmp_path, monkeypatch):
    """With relative paths."""
    monkeypatch.chdir(world.folder)
    words = ["--method", "prompt-tuning", "--position", "4", "--max-epoch", "2", "--batch-size", "8"]
    words += ["--lr", "1e-3", "--results", str(tmp_path), "--out", "made/mnli.pt"]
    train.main(["MNLI", "--supplementary", *ARGUMENTS, *words])
    record = json.loads((tmp_path / "results.jsonl").read_text())
    assert (record["task"], record["supplementary"], record["position"]) == ("MNLI", True, 4)
    assert record["trainable"] > 5 * 32 and record["status"] == "done"
    made, before = (torch.load(path, weights_only=True) for path in ("made/mnli.pt", world.backbone))
    assert made["last_optimizer_state"] is None
    name = "encoder.sentence_encoder.layers.0.fc1.weight"
    assert not torch.equal(made["model"][name], before["model"][name])
    assert made["cfg"]["optimization"]["lr"] == [1e-3] and made["cfg"]["task"]["swap_pairs"] == "append"
