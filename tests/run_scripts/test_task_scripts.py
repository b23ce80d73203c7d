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

from preprocess.errors import InputError
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

    def run(name, *words, succeed=True):
        done = subprocess.run(
            ["bash", str(root / "run_scripts" / name), *words],
            env={**os.environ, "PATH": f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": ""},
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
        python, path, place, *arguments = done.stdout.splitlines()
        assert (path, place) == (str(root), str(tmp_path))
        return python, arguments

    run.root = root
    return run


@pytest.mark.parametrize("task", TASKS)
def test_a_script_for_each_task(shown, task):
    _, arguments = shown(f"{task.lower()}.sh", "--lr", "5e-4", "--method", "a b")
    assert arguments == ["-m", "run_scripts.train", task, "--lr", "5e-4", "--method", "a b"]


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
    assert said.startswith("task.sh: " if words == ["rte.sh"] else f"{words[0]}: ") and said.count("\n") == 1
    assert said.endswith(".venv is not there, nor a python with fairseq: bash run_scripts/setup_env.sh makes it\n")


def test_where_a_shell_looks_for_folders_changes_nothing(shown):
    """``cd`` prints what it has found by CDPATH."""
    places = {"PATH": f"{shown.root / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": "", "CDPATH": "."}
    done = subprocess.run(
        ["bash", "run_scripts/rte.sh"], env={**os.environ, **places}, cwd=shown.root, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[1:] == [*[str(shown.root)] * 2, "-m", "run_scripts.train", "RTE"]


def test_supplementary_training_is_a_task(shown):
    _, arguments = shown("mnli_supplementary.sh", "--position", "4", "--out", "x.pt")
    assert arguments == ["-m", "run_scripts.train", "MNLI", "--supplementary", "--position", "4", "--out", "x.pt"]


def test_the_pipeline_is_a_sweep_and_a_report(shown):
    words = ["--pairs", "0:0 0:1 4:1", "--tasks", "RTE MRPC", "--methods", "prompt-tuning s-idpg-phm"]
    words += ["--seeds", "1 2", "--lrs", "5.0e-3", "--backbone", "a b.pt", "--mnli", "m", "--results", "out"]
    _, arguments = shown("supplementary_pipeline.sh", *words, "--jobs", "2", "--set", "max_update=4")
    config = str(shown.root / "run_scripts" / "configs" / "figure7.yaml")
    report = arguments.index(str(shown.root)) - 1  # the second call
    assert arguments[:3] == ["-m", "run_scripts.sweep", config]
    assert arguments[3:report] == [
        *("--set", "tasks=[RTE,MRPC]", "--set", "seeds=[1,2]", "--set", "lrs=[5.0e-3]", "--set", "backbone='a b.pt'"),
        *("--set", "supplementary.data='m'", "--jobs", "2", "--set", "max_update=4"),
        *("--set", "positions=[[0,0],[0,1],[4,1]]", "rows=[prompt-tuning,s-idpg-phm]", "--results", "out"),
    ]
    assert arguments[report + 3 :] == ["-m", "run_scripts.report", "out", "--figure", "7"]


def test_the_pipeline_lists_its_runs(shown):
    _, arguments = shown("supplementary_pipeline.sh", "--dry-run", "--tasks", "RTE")
    assert arguments[3:] == ["--dry-run", "--set", "tasks=[RTE]", "--results", "results/figure7"]


def test_the_pipeline_takes_values_behind_an_equals_sign(shown):
    """Without, --results=DIR would be the sweep's alone, and the last one, the script's own, would count."""
    _, arguments = shown("supplementary_pipeline.sh", "--dry-run", "--pairs=0:1", "--results=out", "--jobs=2")
    assert arguments[3:] == [
        *("--dry-run", "--jobs", "2", "--set", "positions=[[0,1]]", "rows=[prompt-tuning,s-idpg-phm]"),
        *("--results", "out"),
    ]


def test_the_pipeline_takes_a_path_with_an_apostrophe(shown):
    _, arguments = shown("supplementary_pipeline.sh", "--dry-run", "--backbone", "it's a.pt", "--mnli", "'m'")
    found = {key: yaml.safe_load(value) for key, value in (word.split("=", 1) for word in arguments if "=" in word)}
    assert found == {"backbone": "it's a.pt", "supplementary.data": "'m'"}


def test_the_pipeline_refuses_what_is_no_pair(shown):
    assert "--pairs 0-1: write two positions" in shown("supplementary_pipeline.sh", "--pairs", "0-1", succeed=False)
    assert "--pairs needs a value" in shown("supplementary_pipeline.sh", "--pairs", succeed=False)
    for empty in ("", " "):  # a variable that is not set: not all pairs of the configuration
        words = ["supplementary_pipeline.sh", "--dry-run", "--pairs", empty]
        assert "--pairs needs a value" in shown(*words, succeed=False)
    said = shown("supplementary_pipeline.sh", "--dry-run", "--methods", "s-idpg-phm", succeed=False)
    assert "--methods s-idpg-phm needs the positions of each: add --pairs" in said
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a task first"),
        (["--help"], "name a task first"),
        (["RTEE"], "task RTEE is unknown: did you mean RTE?"),
        (["RTE"], "data data/RTE-bin does not exist: make it with python -m preprocess RTE"),
        (["RTE", "--save-dir", "x"], "--save-dir is set by --results"),
        (["RTE", "--lr", "-1"], "--lr '-1' is no learning rate"),
    ],
)
def test_bad_input_of_a_task(monkeypatch, tmp_path, words, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as raised:
        train.main(words)
    assert said in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fp61"], "option --fp61 is unknown to fairseq-train: did you mean --fp16?"),
        (["--method", "m-idpg-pmh"], "did you mean m-idpg-phm?"),
        (
            ["--fp16", "--bf16"],
            "fairseq-train refuses its options: Cannot combine --fp16",
        ),
        (["--phm-n", "4", "--init-prompts-from", "backbone/model.pt"], "holds another method or other sizes"),
        (["--encoder-layers", "4"], "--encoder-layers is 4 but the backbone"),
        (["--dev", "4", "--selection", "paper"], "--dev 4 has no effect with --selection paper"),
        (["--supplementary-position", "-1"], "--supplementary-position -1 is unknown: choose from 0, 1, 2, 3, 4"),
        (["--k", "40", "--phm-n", "4"], "has 24 training examples, not 41"),
        (["--init-prompts-from", ""], "--init-prompts-from is empty: name a path, or leave it out"),
        (["--init-head-from="], "--init-head-from is empty: name a path, or leave it out"),
        (["--data", ""], "--data is empty: name a path, or leave it out"),
    ],
)
def test_bad_options_of_a_task(world, monkeypatch, tmp_path, words, said):
    monkeypatch.chdir(world.folder)
    with pytest.raises(SystemExit) as raised:
        train.main(["RTE", "--results", str(tmp_path / "results"), *ARGUMENTS, *words])
    assert said in str(raised.value) and "\n" not in str(raised.value)
    assert not (tmp_path / "results").exists()


def test_where_the_checkpoint_goes_is_tried_before_the_training(world, monkeypatch, tmp_path):
    monkeypatch.chdir(world.folder)
    monkeypatch.setattr(train, "perform", lambda *_, **__: pytest.fail("it has begun"))
    words = ["--phm-n", "4", "--results", str(tmp_path / "results"), "--out", str(tmp_path)]
    with pytest.raises(SystemExit, match=f"run_scripts: --out {tmp_path} is a folder: name a file"):
        train.main(["RTE", *ARGUMENTS, *words])


def test_the_checkpoint_takes_the_place_of_nothing_that_the_training_starts_from(world, monkeypatch, tmp_path):
    monkeypatch.chdir(world.folder)
    monkeypatch.setattr(train, "perform", lambda *_, **__: pytest.fail("it has begun"))
    before = (world.folder / "backbone" / "model.pt").read_bytes()
    words = ["RTE", *ARGUMENTS, "--phm-n", "4", "--results", str(tmp_path), "--out"]
    with pytest.raises(SystemExit, match="--out backbone/model.pt is the file of --backbone, which it would replace"):
        train.main([*words, "backbone/model.pt"])
    with pytest.raises(SystemExit, match="--out data/RTE-bin/x.pt lies in the folder .*, which is read"):
        train.main([*words, "data/RTE-bin/x.pt"])
    assert (world.folder / "backbone" / "model.pt").read_bytes() == before


def test_no_damaged_checkpoint_is_left_elsewhere(world, tmp_path):
    kept, out = tmp_path / "runs" / "0" / "checkpoint_best.pt", tmp_path / "out.pt"
    kept.parent.mkdir(parents=True)
    for content in (None, world.backbone.read_bytes()[:-100]):
        if content is not None:
            kept.write_bytes(content)
        with pytest.raises(InputError, match=f"{kept} is gone or damaged"):
            train.place(kept, out)
    assert not out.exists()


@pytest.mark.parametrize("words", [["--k", "8"], ["--dev", "4"], ["--eval-tasks", "SNLI", "--eval-k", "8"]])
def test_supplementary_training_draws_no_examples(world, monkeypatch, tmp_path, words):
    monkeypatch.chdir(world.folder)
    with pytest.raises(SystemExit, match=f"{words[-2]} does not go with --supplementary, which trains on the whole"):
        train.main(["MNLI", "--supplementary", "--results", str(tmp_path), *ARGUMENTS, *words])


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
def supplementary(world):
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


def test_a_task_from_that_backbone(world, supplementary):
    """In another folder, with relative paths, keeping the prompts: at this learning rate they stay as they were."""
    words = ["--method", "prompt-tuning", "--position", "1", "--supplementary-position", "4", "--lr", "1e-9"]
    words += ["--backbone", supplementary, "--init-prompts-from", supplementary, "--max-update", "1", "--k", "8"]
    done = subprocess.run(
        ["bash", str(SCRIPTS / "rte.sh"), *ARGUMENTS, *words, "--dev", "4", "--results", "rte"],
        cwd=world.folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    record = json.loads((world.folder / "rte" / "results.jsonl").read_text())
    last = done.stdout.splitlines()[-1]
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
