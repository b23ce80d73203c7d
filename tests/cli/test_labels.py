"""Labels belong to the model: data with the same names in another order is mapped onto them."""

import numpy as np
import pytest
import torch

from fairseq_idpg.inference.folder import load_on_folder, predict_split
from tests.folders import renamed, run, same_tensors, train, validate, write_backbone, write_folder
from tests.inference.conftest import enlarge

F1 = ["--report-acc-and-f1"]
SCORES = ["--regression-target", "--best-checkpoint-metric", "loss"]
METRICS = ("valid_loss", "valid_accuracy", "valid_f1", "valid_acc_and_f1")
SAME = {"0": "0", "1": "1"}


@pytest.fixture(scope="module")
def mrpc(tmp_path_factory):
    """A place with ``first`` ("1" is the more frequent class, so the first), ``second`` (the same examples with the
    classes in the other order), and a model that was trained on ``first``."""
    place = tmp_path_factory.mktemp("mrpc")
    backbone = write_backbone(place / "model.pt")
    enlarge(backbone)
    plain = write_folder(place / "plain", splits={"train": 64, "valid": 21}, longest=3)
    renamed(plain, place / "first", SAME, ["1", "0"])
    renamed(plain, place / "second", SAME, ["0", "1"])
    options = ["--backbone", place / "model.pt", "--max-epoch", 3, "--lr", "3e-3", *F1]
    train(place / "first", place / "run", *options)
    return place


@pytest.fixture(scope="module")
def checkpoint(mrpc):
    return mrpc / "run" / "checkpoint_last.pt"


def test_validation_is_of_names(mrpc, checkpoint):
    workers = {"first": 0, "second": 1}  # a worker has the order too
    scores = [validate(mrpc / name, checkpoint, *F1, "--num-workers", n).log for name, n in workers.items()]
    for metric in METRICS:
        assert scores[0](metric) == scores[1](metric) != [], metric
    model, task = load_on_folder(str(checkpoint), str(mrpc / "first"), cpu=True)
    found = predict_split(model, task, "valid")
    said, gold = (np.array(found.label_names)[ids] == "1" for ids in (found.answers, found.targets))
    assert 0 < said.sum() < 21  # F1 of "0" is another number
    f1 = 200 * (said & gold).sum() / (said.sum() + gold.sum())
    assert scores[1]("valid_f1") == [pytest.approx(f1, abs=0.06)]


def test_training_on_another_order_makes_the_same_model(mrpc, checkpoint, tmp_path):
    states = []
    for name in ("first", "second"):
        start = ["--backbone", mrpc / "model.pt", "--restore-file", checkpoint, "--reset-optimizer"]
        options = [*start, "--reset-dataloader", "--reset-meters", "--max-epoch", 1, "--lr", "3e-3"]
        options += ["--criterion", "sentence_prediction_idpg", *F1]
        finished = train(mrpc / name, tmp_path / name, *options, processes=2)
        state = torch.load(tmp_path / name / "checkpoint_last.pt", weights_only=True)["model"]
        states.append((state, finished.log("train_loss"), [finished.log(metric) for metric in METRICS]))
    assert same_tensors(states[0][0], states[1][0]) and states[0][1:] == states[1][1:]
    assert states[1][0]["_extra_state"]["record"]["labels"] == ["1", "0"]


@pytest.mark.parametrize(
    ("kind", "options", "named"),
    [
        ({"regression": True}, [], "--regression-target --num-classes 1"),
        ({}, [*SCORES, "--num-classes", 1], "--regression-target is for scores"),
        ({"names": ("no", "yes")}, ["--report-mcc"], "--report-mcc scores classes that are numbers"),
        ({"classes": 3}, ["--num-classes", 3, *F1], "--report-acc-and-f1 scores two classes"),
    ],
)
def test_classes_are_not_scores_in_training(mrpc, tmp_path, kind, options, named):
    data = write_folder(tmp_path / "data", **kind)
    finished = train(data, tmp_path, "--backbone", mrpc / "model.pt", "--max-update", 1, *options, succeed=False)
    assert named in finished.last_line and "Traceback" not in finished.output
    assert not list(tmp_path.glob("*.pt"))


def test_another_name_of_the_head_and_flags_that_are_left_out(mrpc, tmp_path):
    options = ["--backbone", mrpc / "model.pt", "--max-update", 2, "--lr", "3e-3", "--classification-head-name", "mine"]
    finished = train(mrpc / "first", tmp_path / "run", *options)
    checkpoint = tmp_path / "run" / "checkpoint_last.pt"
    given = validate(mrpc / "first", checkpoint)
    assert given.log("valid_accuracy") == finished.log("valid_accuracy")
    found = run("validate", mrpc / "first", "--path", checkpoint, "--batch-size", 5, without="--init-token")
    assert found.log("valid_loss") == given.log("valid_loss")
    line = validate(mrpc / "first", checkpoint, "--classification-head-name", "yours", succeed=False).last_line
    assert "holds the head mine" in line and "--classification-head-name" in line
