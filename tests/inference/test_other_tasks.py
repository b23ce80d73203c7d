"""A checkpoint on the folder of another task: its classes are that task's by meaning, and scores are right."""

import json

import numpy as np
import pytest

from fairseq_idpg import predict
from preprocess.data_folder import DataFolder
from tests.folders import renamed, train, validate, write_backbone, write_folder

SPLITS = {"train": 80, "valid": 40}


def of_task(folder, task):
    (folder / "preprocess.json").write_text(json.dumps({"task": task}))
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Folders of the same sentences: SST-2 with 0 before 1, CR with 1 before 0, SUBJ, and own data with two words."""
    place = tmp_path_factory.mktemp("tasks")
    same = {"0": "0", "1": "1"}
    folders = {"SST-2": of_task(write_folder(place / "sst", pairs=False, splits=SPLITS), "SST-2")}
    folders["CR"] = of_task(renamed(folders["SST-2"], place / "cr", same, ["1", "0"]), "CR")
    folders["SUBJ"] = of_task(renamed(folders["SST-2"], place / "subj", same), "SUBJ")
    folders["mine"] = of_task(renamed(folders["SST-2"], place / "mine", {"0": "bad", "1": "good"}), "mine")
    backbone = write_backbone(place / "model.pt")
    learned = ["--backbone", backbone, "--max-epoch", 10, "--lr", "1e-2", "--no-freeze-backbone"]
    train(folders["SST-2"], place / "run", *learned, without="--separator-token")
    return folders, backbone, place / "run" / "checkpoint_best.pt"


def answers(world, task, out):
    folders, _, checkpoint = world
    predict.main([str(folders[task]), "--path", str(checkpoint), "--split", "valid", "--out", str(out), "--cpu"])
    return [line.split("\t")[0] for line in out.read_text().splitlines()]


@pytest.mark.parametrize("task", ["SUBJ", "mine"])
def test_labels_that_mean_something_else_are_refused(world, tmp_path, task):
    with pytest.raises(SystemExit) as stopped:
        answers(world, task, tmp_path / "out")
    assert "label" in str(stopped.value.code) and "\n" not in str(stopped.value.code)
    assert not (tmp_path / "out").exists()
    said = validate(world[0][task], world[2], "--valid-subset", "valid", without="--separator-token", succeed=False)
    assert "label" in said.last_line


def test_a_training_that_goes_on_takes_the_classes_along_by_meaning(world, tmp_path):
    """With a rate of nothing the model says of CR what it said of SST-2; one whose labels mean others may start too."""
    folders, backbone, checkpoint = world
    start = ["--backbone", backbone, "--finetune-from-model", checkpoint, "--no-freeze-backbone"]
    start += ["--max-epoch", 1, "--lr", "1e-12"]
    kept = answers(world, "CR", tmp_path / "before")
    assert set(kept) == {"0", "1"}
    data = DataFolder(folders["CR"])
    right = np.mean([answer == data.label_names[label] for answer, label in zip(kept, data.classes("valid"))])
    for task in ("CR", "SUBJ"):
        done = train(folders[task], tmp_path / task, *start, without="--separator-token")
        assert done.log("valid_accuracy")[-1] == pytest.approx(100 * right)
    gone_on = (folders, backbone, tmp_path / "SUBJ" / "checkpoint_best.pt")
    assert answers(gone_on, "SUBJ", tmp_path / "after") == kept
    with pytest.raises(SystemExit, match="those of CR"):
        answers(gone_on, "CR", tmp_path / "refused")
