"""The scripts: what they call, and a supplementary training and a task from its backbone as they do it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
import yaml

from run_scripts import train
from run_scripts.run.experiment import backbone_digest
from tests.folders import ROOT
from tests.run_scripts.tiny import FLAGS

SCRIPTS = ROOT / "run_scripts"
TASKS = ("CR", "MR", "SUBJ", "MPQA", "SST-2", "QNLI", "RTE", "MRPC", "QQP", "STS-B", "MNLI")
ARGUMENTS = ["--backbone", "backbone/model.pt", "--arch", "roberta_idpg", *FLAGS]
SHOW = '#!/bin/bash\nprintf "%s\\n" "$0" "$PYTHONPATH" "$PWD" "$@"\n'


@pytest.fixture
def shown(tmp_path):
    """What a script calls, with a Python that shows it: (its place, arguments)."""
    root = tmp_path / "a root"
    (root / "run_scripts").mkdir(parents=True)
    for script in SCRIPTS.glob("*.sh"):
        shutil.copy(script, root / "run_scripts")
    (root / "bin").mkdir()
    (root / "bin" / "python").write_text(SHOW)
    (root / "bin" / "python").chmod(0o755)
    path = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def run(name, *words, succeed=True):
        done = subprocess.run(
            ["bash", os.path.join("a root", "run_scripts", name), *words],
            env={**os.environ, "PATH": path, "PYTHONPATH": "", "CDPATH": "."},  # by which cd prints what it has found
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode == 0) == succeed, done.stderr
        if not succeed:
            return done.stderr
        if not done.stdout.startswith("/"):
            return done.stdout
        python, path_of_python, place, *arguments = done.stdout.splitlines()
        assert (path_of_python, place) == (str(root), str(tmp_path))
        return python, arguments

    run.root = root
    return run


def test_a_script_for_each_task(shown):
    for task in TASKS:
        _, arguments = shown(f"{task.lower()}.sh", "--lr", "5e-4", "--method", "a b")
        assert arguments == ["-m", "run_scripts.train", task, "--lr", "5e-4", "--method", "a b"]
    _, arguments = shown("mnli_supplementary.sh", "--position", "4", "--out", "x.pt")
    assert arguments == ["-m", "run_scripts.train", "MNLI", "--supplementary", "--position", "4", "--out", "x.pt"]


def test_the_environment_of_the_repository_comes_first(shown):
    assert shown("rte.sh")[0].endswith("bin/python") and ".venv" not in shown("rte.sh")[0]
    (shown.root / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(shown.root / "bin" / "python", shown.root / ".venv" / "bin" / "python")
    assert shown("rte.sh")[0] == str(shown.root / ".venv" / "bin" / "python")


@pytest.mark.parametrize("words", [["rte.sh"], ["supplementary_pipeline.sh", "--dry-run"], ["evidence.sh", "minilm"]])
def test_without_an_environment(shown, words):
    """No python at all, or one without fairseq."""
    (shown.root / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")
    said = shown(*words, succeed=False)
    assert said.count("\n") == 1 and "setup_env.sh" in said


PAIRS = ["--pairs", "0:0 0:1 4:1", "--methods", "prompt-tuning s-idpg-phm"]


def test_the_pipeline_is_a_sweep_and_a_report(shown):
    words = [*PAIRS, "--tasks", "RTE MRPC", "--seeds", "1 2", "--lrs", "5.0e-3", "--backbone", "a b.pt", "--mnli", "m"]
    _, arguments = shown(
        "supplementary_pipeline.sh", *words, "--results", "out", "--jobs", "2", "--set", "max_update=4"
    )
    report = arguments.index(str(shown.root)) - 1  # the second call
    assert arguments[:2] == ["-m", "run_scripts.sweep"] and arguments[2].endswith("run_scripts/configs/figure7.yaml")
    assert arguments[3:report] == [
        *("--set", "tasks=[RTE,MRPC]", "--set", "seeds=[1,2]", "--set", "lrs=[5.0e-3]", "--set", "backbone='a b.pt'"),
        *("--set", "supplementary.data='m'", "--jobs", "2", "--set", "max_update=4"),
        *("--set", "positions=[[0,0],[0,1],[4,1]]", "rows=[prompt-tuning,s-idpg-phm]", "--results", "out"),
    ]
    assert arguments[report + 3 :] == ["-m", "run_scripts.report", "out", "--figure", "7"]


def test_the_pipeline_takes_values_behind_an_equals_sign(shown):
    """Without, --results=DIR would be the sweep's alone, and the last one, the script's own, would count."""
    _, arguments = shown("supplementary_pipeline.sh", "--dry-run", "--pairs=0:1", "--results=out", "--jobs=2")
    assert arguments[3:] == [
        *("--dry-run", "--jobs", "2", "--set", "positions=[[0,1]]", "rows=[prompt-tuning,s-idpg-phm]"),
        *("--results", "out"),
    ]
    _, arguments = shown("supplementary_pipeline.sh", "--dry-run", "--backbone", "it's a.pt", "--mnli", "'m'")
    found = {key: yaml.safe_load(value) for key, value in (word.split("=", 1) for word in arguments if "=" in word)}
    assert found == {"backbone": "it's a.pt", "supplementary.data": "'m'"}


@pytest.mark.parametrize("words", [["--pairs", "0-1"], ["--pairs"], ["--pairs", " "], PAIRS[2:]])
def test_the_pipeline_refuses_what_is_no_pair(shown, words):
    """Of a variable that is not set: not all pairs of the configuration."""
    assert words[0] in shown("supplementary_pipeline.sh", "--dry-run", *words, succeed=False)
    assert "--methods" in shown("supplementary_pipeline.sh", "--help")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["RTE", "--help"], "RTE with the paper's settings: batch 16, 50 epochs, learning rates 0.005, 0.001"),
        (["QQP", "-h"], "batch 32, 10 epochs"),
        (["MNLI", "--supplementary", "--help"], "for other tasks: batch 32, 10 epochs, learning rates 1e-05"),
    ],
)
def test_help(capsys, words, said):
    with pytest.raises(SystemExit, match="0"):
        train.main(words)
    assert said in " ".join(capsys.readouterr().out.split())


def test_few_shot_says_what_every_layer_reads(world, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(world.folder)
    made = []
    monkeypatch.setattr(train, "perform", lambda experiment, *_, **__: made.append(experiment) or sys.exit(0))
    for words in ([], ["--k", "4"], ["--k", "4", "--representation", "previous-layer"]):
        with pytest.raises(SystemExit):
            train.main(["RTE", "--results", str(tmp_path), *ARGUMENTS, "--phm-n", "4", *words])
    said = capsys.readouterr().err
    assert said.count("with --k, as in the authors' scripts: --representation backbone; ") == 1
    inputs = [run.options[run.options.index("--phm-n") + 2 :] for run in made]
    assert inputs == [(), ("--representation", "backbone"), ("--representation", "previous-layer")]


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
    assert list((world.folder / "made").iterdir()) == [world.folder / supplementary]


def test_a_task_from_that_backbone(world, supplementary, monkeypatch, capsys):
    """With relative paths, keeping the prompts: at this learning rate they stay as they were."""
    words = ["--method", "prompt-tuning", "--position", "1", "--supplementary-position", "4", "--lr", "1e-9"]
    words += ["--backbone", supplementary, "--init-prompts-from", supplementary, "--max-update", "1", "--k", "8"]
    monkeypatch.chdir(world.folder)
    train.main(["RTE", *ARGUMENTS, *words, "--dev", "4", "--results", "rte"])
    record = json.loads((world.folder / "rte" / "results.jsonl").read_text())
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("RTE K=8 prompt-tuning, position 4:1, lr 1e-09, seed 1: accuracy ")
    assert last.endswith(f"checkpoint rte/runs/{record['run']}/checkpoint_best.pt")
    assert record["backbone"]["sha256"] == backbone_digest(str(world.folder / supplementary))
    assert (record["position"], record["supplementary_position"], record["k"]) == (1, 4, 8)
    assert (record["setting"], record["best_epoch"], record["trainable"]) == ("few-shot", 1, 5 * 32)
    made = read(world.folder / "rte" / "runs" / record["run"] / "checkpoint_best.pt")
    before = read(world.folder / supplementary)["model"]
    kept = [name for name in before if name.startswith("method.")]
    assert kept and all(torch.allclose(made["model"][name], before[name], atol=1e-6) for name in kept)
    predictions = np.load(world.folder / "rte" / record["predictions"])
    assert len(predictions["dev"]) == 4 and len(predictions["test"]) == 13
