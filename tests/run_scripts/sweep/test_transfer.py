"""Models on tasks that they were not trained on: by a sweep, afterwards, and by the command of a task."""

import json
import shutil
from dataclasses import replace

import pytest

from preprocess.errors import InputError
from preprocess.tasks import TASKS
from run_scripts import train
from run_scripts.run.experiment import Experiment, check_pair, folder_digest
from run_scripts.run.perform import make_record
from run_scripts.sweep.__main__ import main as sweep
from tests.folders import renamed, write_folder
from tests.run_scripts import tiny

KEYS = {"tasks": ["MRPC"], "seeds": [1], "max_epoch": 2}


@pytest.fixture(scope="module")
def data(world, tmp_path_factory):
    """QQP-bin is MRPC-bin with its classes in the other order, so a model of the one scores the same on the other."""
    place = tmp_path_factory.mktemp("transfer")
    splits = {"train": 60, "valid": 39}
    for task, pairs in (("MRPC", True), ("CR", False), ("MR", False)):
        write_folder(place / f"{task}-bin", splits=splits, pairs=pairs)
    renamed(place / "MRPC-bin", place / "QQP-bin", {"0": "0", "1": "1"}, ["1", "0"])
    renamed(place / "MRPC-bin", place / "QNLI-bin", {"0": "not_entailment", "1": "entailment"})
    for task, labels in (("RTE", {"0": "not_entailment", "1": "entailment"}), ("WNLI", {"0": "0", "1": "1"})):
        renamed(place / "MRPC-bin", place / f"{task}-bin", labels, list(labels.values())[::-1])
        (place / f"{task}-bin" / "preprocess.json").write_text(json.dumps({"task": task}))
    return place


@pytest.fixture(scope="module")
def swept(world, in_process, data, tmp_path_factory):
    """A sweep of two rows with another task, without training and with 8 examples; (its file, its results)."""
    place = tmp_path_factory.mktemp("swept")
    config = world.config(place, **KEYS, data=str(data), rows=[tiny.IDPG, {"method": "fine-tuning", "lrs": [1e-3]}])
    sweep([str(config), "--results", str(place / "results"), "--eval-tasks", "QQP", "--eval-k", "8"])
    return config, place / "results"


def by_row(results, few):
    found = tiny.records(results).values()
    return {record["row"]: record for record in found if (record["source_task"] is not None) == few}


def test_labels_are_matched_by_meaning(swept):
    """By their numbers the accuracy would be what is missing to 100."""
    for record in by_row(swept[1], few=False).values():
        own, other = record["scores"]["test"], record["transfer"]["QQP"]
        assert other["scores"] == own and other["test"] == own["acc_and_f1"] and own["accuracy"] % 50
        assert own["acc_and_macro_f1"] == pytest.approx((own["accuracy"] + own["macro_f1"]) / 2)


def test_few_examples_are_trained_on_from_what_the_first_task_left(swept):
    sources, runs = by_row(swept[1], few=False), by_row(swept[1], few=True)
    assert runs.keys() == {"m-idpg-phm", "fine-tuning"}
    for row, record in runs.items():
        assert (record["source_run"], record["source_task"]) == (sources[row]["run"], "MRPC")
        assert (record["task"], record["k"], record["lr"], record["seed"]) == ("QQP", 8, sources[row]["lr"], 1)
        log = (swept[1] / "runs" / record["run"] / "train.log").read_text()
        assert f"loading pretrained model from {swept[1]}/runs/{record['source_run']}/checkpoint_best.pt" in log
        assert "optimizer, lr scheduler, meters, dataloader will be reset" in log
        assert "--representation" not in record["command"]  # M-IDPG is what it was
    folder = swept[1] / "runs" / runs["m-idpg-phm"]["run"]
    experiment = replace(Experiment.from_json((folder / "experiment.json").read_text()), source_run="gone")
    with pytest.raises(InputError, match="runs/gone/checkpoint_best.pt is gone or damaged"):
        make_record(experiment, "next", swept[1], echo=False)


def test_a_task_that_is_named_later_is_answered_without_training(swept, data, tmp_path, capsys):
    config, results = swept[0], shutil.copytree(swept[1], tmp_path / "results")
    log = {path: path.read_text() for path in results.glob("runs/*/train.log")}
    arguments = [str(config), "--results", str(results), "--set", f"rows=[{json.dumps(tiny.IDPG)}]"]
    arguments += ["--eval-tasks", "QQP", "--set", f"data={{MRPC: {data}/MRPC-bin, QQP: {data}/QQP-2-bin}}"]
    shutil.copytree(data / "QQP-bin", data / "QQP-2-bin")
    sweep([*arguments, "--dry-run"])
    assert "0 of 1 runs are missing" in capsys.readouterr().out  # the same texts and labels, wherever they lie
    shutil.rmtree(data / "QQP-2-bin")
    shutil.copytree(write_folder(tmp_path / "other", splits={"train": 9, "valid": 31}), data / "QQP-2-bin")
    folder_digest.cache_clear()
    sweep([*arguments, "--dry-run"])
    said = capsys.readouterr().out
    assert "1 of 1 runs are missing" in said and "→ QQP" in said
    sweep(arguments)
    assert {path: path.read_text() for path in results.glob("runs/*/train.log")} == log
    before, after = (by_row(place, few=False)["m-idpg-phm"] for place in (swept[1], results))
    assert before["transfer"] != after["transfer"] and {**before, "transfer": 0} == {**after, "transfer": 0}


def test_the_command_of_a_task(world, data, tmp_path, capsys):
    """Other names of the same, in the other order."""
    arguments = ["RTE", "--method", "m-idpg-phm", "--phm-n", "4", "--data", str(data / "RTE-bin"), "--arch"]
    arguments += ["roberta_idpg", "--backbone", str(world.backbone), *tiny.FLAGS, "--max-epoch", "2", "--lr", "1e-2"]
    train.main([*arguments, "--eval-tasks", "wnli", "--results", str(tmp_path)])
    (record,) = tiny.records(tmp_path).values()
    assert record["transfer"]["WNLI"]["scores"] == record["scores"]["test"]
    assert capsys.readouterr().out.splitlines()[-1].startswith("RTE → WNLI without training on it: accuracy ")


@pytest.mark.parametrize(("source", "target"), [("CR", "SUBJ"), ("MRPC", "STS-B"), ("MRPC", "CR")])
def test_tasks_without_a_common_meaning(source, target):
    with pytest.raises(InputError, match=target):
        check_pair("--eval-tasks", TASKS[source], TASKS[target])
