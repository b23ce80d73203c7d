"""What is found before the first run of a sweep starts, and what a sweep that runs nothing says."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile

import pytest
import torch

from preprocess.data_folder import DataFolder
from preprocess.errors import InputError
from preprocess.few_shot import few_shot
from run_scripts import train
from run_scripts.run.preflight import check_saving, parse
from run_scripts.sweep import __main__ as sweep
from tests.folders import renamed, write_backbone
from tests.helpers import tiny_model
from tests.representations.test_word_vectors import write_vectors
from tests.run_scripts.tiny import FLAGS, IDPG, OPTIONS


@pytest.fixture
def checked(world, tmp_path, capfd):
    """The error of a sweep."""

    def run(*options, **keys):
        results = tmp_path / "results"
        with pytest.raises(SystemExit) as raised:
            sweep.main([str(world.config(tmp_path, **keys)), "--results", str(results), *options])
        assert not (results / "runs").exists() and not (results / "results.jsonl").exists()
        said = str(raised.value)
        assert "\n" not in said and not capfd.readouterr().err
        return said

    return run


def without(name):
    return {option: value for option, value in OPTIONS.items() if option != name}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"arch": "roberta_idpg_large", "options": without("encoder-layers")},
            "--encoder-layers is 24 but the backbone",
        ),
        ({"options": without("encoder-embed-dim")}, "--encoder-embed-dim is 768 but the backbone"),
        ({"options": without("max-positions")}, "--max-positions is 512 but the backbone"),
        ({"arch": "roberta_idpg_larg"}, "arch roberta_idpg_larg is unknown: did you mean roberta_idpg_large?"),
        (
            {"options": {**OPTIONS, "dropuot": 0}},
            "option --dropuot is unknown to fairseq-train: did you mean --dropout?",
        ),
        ({"options": {**OPTIONS, "dropout": "much"}}, "argument --dropout: invalid float value: 'much'"),
        ({"options": {**OPTIONS, "dropout": 1.5}}, "--dropout 1.5 is no share: give 0 or more, and less than 1"),
        ({"options": {**OPTIONS, "weight-decay": "nan"}}, "--weight-decay nan is no finite number: give one"),
        ({"options": {**OPTIONS, "store-ema": True}}, "--store-ema is not supported: "),
        ({"options": {**OPTIONS, "fp16": True}}, "--fp16 with --cpu: give --fp16-no-flatten-grads as well"),
        (
            {"options": {**OPTIONS, "validate-interval": 5}},
            "--validate-interval 5 --save-interval 1: no epoch of --max-epoch 2 is validated and saved: give smaller",
        ),
        (
            {"options": {**OPTIONS, "save-interval": 3}},
            "--validate-interval 1 --save-interval 3: no epoch of --max-epoch",
        ),
        ({"options": {**OPTIONS, "disable-validation": True}}, "--disable-validation: there would be no best"),
        ({"options": {**OPTIONS, "no-save": True}}, "--no-save: there would be no best checkpoint to test: leave it"),
        ({"rows": [{**IDPG, "options": {"generator-sharing": "X"}}]}, "argument --generator-sharing: invalid"),
        ({"rows": [{**IDPG, "options": {"phm-n": 5}}]}, "--phm-n 5 does not divide"),
        ({"rows": [{"method": "adapter", "options": {"phm-n": 4}}]}, "--phm-n 4 has no effect with --method adapter"),
        (
            {"rows": [{"method": "m-idpg-phm-glove"}]},
            "glove.json is missing or damaged: run python -m preprocess glove",
        ),
        ({"rows": ["m-idpg-pmh"]}, "rows: method: m-idpg-pmh is unknown: did you mean m-idpg-phm?"),
        ({"positions": [5]}, "--prompt-position 5 is unknown"),
        ({"positions": [3], "tasks": ["CR"]}, "stands for no runs"),
        (
            {"rows": ["efl"], "tasks": ["CR"]},
            "efl needs entailment pairs: make them with python -m preprocess CR --efl",
        ),
        ({"k": [40]}, "has 24 training examples, not 48: --k can be 16 at most with --dev 8"),
    ],
)
def test_found_before_the_first_run(checked, keys, said):
    assert said in checked(**keys)
    assert said in checked("--dry-run", **keys)


def test_settings_of_slurm_are_found_by_a_dry_run_too(checked):
    assert "--slurm goes with --cluster slurm: leave it out" in checked("--dry-run", "--slurm", "time=5")
    assert "--slurm time is no KEY=VALUE" in checked("--dry-run", "--cluster", "slurm", "--slurm", "time")


def test_a_backbone_of_another_kind(checked, world, tmp_path):
    other = write_backbone(tmp_path / "other.pt", words=60)
    assert "the data's dictionary has 55 symbols but the backbone" in checked(backbone=str(other))
    other.write_text("no checkpoint")
    assert "other.pt is not a fairseq checkpoint" in checked(backbone=str(other))


def test_folders_that_do_not_suit_the_task(checked, world, tmp_path):
    scores = str(world.data / "STS-B-bin")
    assert f"data {scores} has scores for labels, and RTE has classes: name another" in checked(data={"RTE": scores})
    half = shutil.copytree(world.data / "RTE-bin", tmp_path / "half")
    for file in half.glob("label/valid*"):
        file.unlink()
    assert "has no labels of valid" in checked(data={"RTE": str(half)})
    (tmp_path / "empty").mkdir()
    assert "is not a binarized folder" in checked(data={"RTE": str(tmp_path / "empty")})


RECORDED = {"MRPC": "data .* is of MRPC", "reviews": "data .* is of reviews", "rte": None, "RTE": None, None: None}


@pytest.mark.parametrize(("name", "said"), RECORDED.items())
def test_the_name_that_a_folder_records_is_that_of_its_task(world, tmp_path, name, said):
    """Its scores would be those of another data set, under the name of this one. fairseq-preprocess records none."""
    folder = shutil.copytree(world.data / "RTE-bin", tmp_path / "folder")
    if name is not None:
        (folder / "preprocess.json").write_text(json.dumps({"task": name}))
    config = world.config(tmp_path, data={"RTE": str(folder)})
    runs = ["--lr", "0.01", "--max-epoch", "1", "--backbone", str(world.backbone), "--arch", "roberta_idpg", *FLAGS]
    started = [
        (sweep.main, [str(config), "--results", str(tmp_path / "r"), "--dry-run"]),
        (train.main, ["RTE", "--data", str(folder), "--results", str(tmp_path / "r"), "--dev", "8", *runs]),
    ]
    for main, words in started if said else started[:1]:
        with contextlib.nullcontext() if said is None else pytest.raises(SystemExit, match=said):
            main(words)
    assert not (tmp_path / "r").exists()


def of_words(world, place, task, *labels):
    """Three classes of our own, or two, in the place of a task's."""
    before = DataFolder(world.data / f"{task}-bin").label_names
    return str(renamed(world.data / f"{task}-bin", place / "own", dict(zip(before, labels))))


@pytest.mark.parametrize(
    ("task", "source", "labels"),
    [
        ("MNLI", "MNLI", ["sports", "food", "weather"]),
        ("MRPC", "MRPC", ["different", "same"]),
        ("CR", "RTE", ["0", "1"]),  # pairs, which are those of --efl with its labels alone
        ("MRPC", "CR", ["0", "1"]),  # single sentences
    ],
)
def test_the_labels_of_a_folder_are_those_of_its_task(checked, world, tmp_path, task, source, labels):
    own = of_words(world, tmp_path, source, *labels)
    assert f"data {own} " in checked(tasks=[task], data={task: own})


def test_the_labels_of_tasks_that_are_answered_too(checked, world, tmp_path):
    folders = {"MRPC": str(world.data / "MRPC-bin"), "QQP": of_words(world, tmp_path, "MRPC", "no", "yes")}
    assert f"eval_tasks {folders['QQP']} " in checked(data=folders, tasks=["MRPC"], eval_tasks=["QQP"])
    (tmp_path / "own" / "preprocess.json").write_text('{"task": "MRPC"}')
    assert f"eval_tasks {folders['QQP']} is of MRPC" in checked(data=folders, tasks=["MRPC"], eval_tasks=["QQP"])


def test_folders_of_a_task_that_are_taken(world, tmp_path, capfd):
    """Those of --efl, a few-shot copy, and labels in another order."""
    efl = of_words(world, tmp_path, "RTE", "not_entailment", "entailment")
    (tmp_path / "own" / "preprocess.json").write_text('{"task": "CR"}')
    few = tmp_path / "few-bin"
    few_shot(DataFolder(world.data / "CR-bin"), 8, 8, 1, per_class=False, out=few)
    for row, folder in (("efl", efl), (IDPG, few)):
        config = world.config(tmp_path, tasks=["CR"], data={"CR": str(folder)}, rows=[row], seeds=[1], dev_examples=2)
        sweep.main([str(config), "--results", str(tmp_path / "results"), "--dry-run"])
    assert capfd.readouterr().out.count("1 of 1 runs are missing") == 2


def test_word_vectors_of_other_text(checked, world, tmp_path):
    data = shutil.copytree(world.data / "RTE-bin", tmp_path / "RTE-bin")
    (data / "glove").mkdir()
    (data / "glove" / "glove.json").write_text(json.dumps({"dim": 300, "sha256": {}}))
    assert "glove/train.npy is missing or damaged" in checked(data=str(tmp_path), rows=["m-idpg-phm-glove"])


def test_word_vectors_of_this_text(world, tmp_path, capfd):
    """Also of tasks that the model answers without training on them."""
    folders = {task: shutil.copytree(world.data / f"{task}-bin", tmp_path / task) for task in ("MRPC", "RTE")}
    folders["QQP"] = shutil.copytree(world.data / "MRPC-bin", tmp_path / "QQP")
    for folder in folders.values():
        write_vectors(folder, width=8)
    keys = {"data": {task: str(folder) for task, folder in folders.items()}, "rows": ["m-idpg-phm-glove"]}
    sweep.main([str(world.config(tmp_path, **keys)), "--results", str(tmp_path / "results"), "--dry-run"])
    keys.update(tasks=["MRPC"], eval_tasks=["QQP"])
    sweep.main([str(world.config(tmp_path, **keys)), "--results", str(tmp_path / "results"), "--dry-run"])
    assert capfd.readouterr().out.count("2 of 2 runs are missing") == 2


def test_starts_that_do_not_fit(checked, world, tmp_path):
    keep = {"data": str(world.data / "MNLI-bin"), "keep": ["head"]}
    said = checked(positions=[[0, 0]], supplementary=keep)
    assert "MNLI-bin has contradiction, neutral, entailment for labels and" in said and said.endswith(
        "RTE-bin entailment, not_entailment, so a head does not fit both: write keep: [prompts]"
    )


@pytest.mark.parametrize("method", ["prompt-tuning+adapter", "mam"])
def test_joined_methods_start_from_the_prompts_of_a_checkpoint(checked, world, tmp_path, capfd, method):
    sizes, start = {"prompt_length": 3}, tmp_path / "start.pt"
    given = tiny_model(method=method, **sizes)
    torch.save({"args": None, "cfg": {"model": vars(given.args)}, "model": given.state_dict()}, start)
    row = {"method": method, "init_prompts_from": str(start), "options": {"prompt-length": 3}}
    keys = {"rows": [row], "seeds": [1]}
    sweep.main([str(world.config(tmp_path, **keys)), "--results", str(tmp_path / "results"), "--dry-run"])
    assert "1 of 1 runs are missing" in capfd.readouterr().out
    row["options"]["prompt-length"] = 4
    assert f"--prompt-init-from {start} holds another method or other sizes" in checked(**keys)


def test_tasks_that_are_scored_by_questions(checked, world, tmp_path):
    said = checked(tasks=["COPA"], data={"COPA": str(world.data / "MRPC-bin")})
    assert "MRPC-bin has no question/train.tsv, and COPA is scored by questions: make it with python -m prep" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--jobs", "0"), "--jobs 0: give 1 or more"),
        (
            ("--set", "options.best-checkpoint-metric=loss"),
            "--best-checkpoint-metric loss: the lowest is best",
        ),
    ],
)
def test_bad_options_of_the_sweep(checked, options, said):
    assert said in checked(*options)


def test_a_dry_run_lists_what_is_missing_and_leaves_nothing(world, tmp_path, capsys):
    config, results = world.config(tmp_path), tmp_path / "results"
    sweep.main([str(config), "--results", str(results), "--dry-run", "--set", "seeds=[1,2,3]"])
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 4 and said[-1] == f"3 of 3 runs are missing in {results}"
    assert "RTE m-idpg-phm, position 0, lr 0.01, seed 3 --cpu" in said[2]
    keys = {"supplementary": {"data": str(world.data / "MNLI-bin")}, "positions": [[0, 0], [0, 1]]}
    sweep.main([str(world.config(tmp_path, **keys)), "--results", str(results), "--dry-run"])
    said = capsys.readouterr().out.splitlines()
    assert "MNLI m-idpg-phm, position 0, lr 1e-05, seed 1" in said[0]
    assert said[-1] == "and then 4 runs that start from what these leave"
    assert not results.exists()


def test_a_place_for_results_that_takes_none_is_found_by_a_dry_run_too(checked, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    said = checked("--dry-run")
    assert said.endswith("results cannot be written to (Read-only file system): make room or name another folder")


@pytest.mark.parametrize("within", ["", "results"])
def test_a_file_in_the_way_of_the_results(world, tmp_path, within):
    (tmp_path / "file").touch()
    results = tmp_path / "file" / within
    with pytest.raises(SystemExit, match=f"--results {results} cannot be written to .Not a directory.: make room or"):
        sweep.main([str(world.config(tmp_path)), "--results", str(results), "--dry-run"])


@pytest.mark.parametrize(
    ("words", "leaves"),
    [("2 1 4", True), ("2 2 3", True), ("2 3 5", False), ("5 1 4", False), ("5 1 4 --max-update 9", True)],
)
def test_the_epochs_that_leave_a_best_checkpoint(world, words, leaves):
    validate, save, epochs, *more = words.split()
    intervals = ["--validate-interval", validate, "--save-interval", save, "--max-epoch", epochs]
    args = parse(["fairseq-train", str(world.data), "--arch", "roberta_idpg_minilm", *intervals, *more])
    with contextlib.nullcontext() if leaves else pytest.raises(InputError, match="is validated and saved"):
        check_saving(args)


@pytest.mark.parametrize("more", [[], ["--max-update", "9"]])
def test_epochs_that_are_validated_are_saved(world, more):
    """Of others the dev score would be known, and no checkpoint could have it."""
    intervals = ["--validate-interval", "1", "--save-interval", "2", "--max-epoch", "4"]
    with pytest.raises(
        InputError, match="^--save-interval 2 --validate-interval 1: an epoch that is validated and not"
    ):
        check_saving(parse(["fairseq-train", str(world.data), "--arch", "roberta_idpg_minilm", *intervals, *more]))


@pytest.mark.parametrize(("after", "leaves"), [("9", True), ("10", False)])
def test_an_update_that_is_validated(world, after, leaves):
    given = ["--max-epoch", "4", "--max-update", "9", "--validate-after-updates", after]
    args = parse(["fairseq-train", str(world.data), "--arch", "roberta_idpg_minilm", *given])
    with (
        contextlib.nullcontext() if leaves else pytest.raises(InputError, match="no update of --max-update 9 is valid")
    ):
        check_saving(args)


def test_commands_that_fairseq_knows_are_parsed_as_it_does(world):
    args = parse(["fairseq-train", str(world.data), "--arch", "roberta_idpg_minilm", "--phm-n", "8", "--lr", "0.5"])
    assert (args.encoder_layers, args.phm_n, args.lr, args.save_full_model) == (6, 8, [0.5], False)
