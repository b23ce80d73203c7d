"""Scores of SuperGLUE in validation: whatever the batches and processes, those of the model's own predictions."""

from types import SimpleNamespace

import pytest
import torch

from fairseq_idpg.criterions.sentence_prediction_idpg import fetched_columns, split_score
from fairseq_idpg.inference.folder import load_on_folder, predict_split
from preprocess.data_folder import DataFolder
from preprocess.split_scores import BY_CHOICE, METRICS, PARTS
from run_scripts.run.perform import numbered
from tests.folders import renamed, train, validate, write_backbone, write_folder, write_questions

SPLITS = {"train": 27, "valid": 13}
NUMBERS = [0, 1, 1, 2, 0, 3, 2, 0, 4, 3, 2, 4, 4]  # answers to one question are in several batches
AGREEMENT = [0.5, 0, 1, 0.25, 1, 0.75, 0, 0.5, 1, 0, 0.5, 0, 0.25]
REPORTS = [f"--report-{metric.replace('_', '-')}" for metric in METRICS]
ALL = [part for parts in PARTS.values() for part in parts]
OURS = ["--criterion", "sentence_prediction_idpg"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """``answers``: of which class 1 is the label 0, and whose questions stand in no order."""
    folder = tmp_path_factory.mktemp("answers")
    write_backbone(folder / "model.pt")
    write_folder(folder / "plain", splits=SPLITS)
    renamed(folder / "plain", folder / "answers", {"0": "1", "1": "0"})
    write_questions(folder / "answers", "valid", NUMBERS, AGREEMENT)
    write_questions(write_folder(folder / "no-texts", splits=SPLITS), "valid", NUMBERS)
    write_questions(write_folder(folder / "three", splits=SPLITS, classes=3), "valid", NUMBERS)
    return folder


def run(place, data, tmp_path, *options, **more):
    usual = [*OURS, "--backbone", place / "model.pt", "--max-epoch", 2, "--dropout", 0, "--attention-dropout", 0]
    return train(place / data, tmp_path, *usual, "--generator-dropout", 0, "--batch-size-valid", 3, *options, **more)


def by_hand(folder, checkpoint):
    """Every part of every metric, of the predictions that a run's record is made of."""
    model, task = load_on_folder(str(checkpoint), str(folder), True)
    found, questions = predict_split(model, task, "valid"), DataFolder(folder).questions("valid")
    scores = {}
    for metric, score in METRICS.items():
        scores.update(score(*numbered(found, questions if metric in BY_CHOICE else None), questions))
    return {part: 100 * scores[part] for part in ALL}


def test_training_and_validation_log_what_the_predictions_score(place, tmp_path):
    finished = run(place, "answers", tmp_path, *REPORTS, "--best-checkpoint-metric", "choice_f1", "--lr", 1e-2)
    expected = by_hand(place / "answers", tmp_path / "checkpoint_last.pt")
    found = {part: finished.log(f"valid_{part}")[-1] for part in ALL}
    assert found == pytest.approx(expected, abs=0.06)
    assert len({round(value) for value in found.values()}) > 3  # they differ, so that none stands for another
    state = torch.load(tmp_path / "checkpoint_best.pt", weights_only=True)
    assert state["extra_state"]["best"] == max(finished.log("valid_choice_f1"))
    again = validate(place / "answers", tmp_path / "checkpoint_last.pt", *OURS, "--batch-size", 1)
    assert {part: again.log(f"valid_{part}")[-1] for part in ALL} == pytest.approx(expected, abs=0.06)


def test_two_processes(place, tmp_path):
    """13 examples in batches of 3: the second process has one batch less, and gets one to ignore."""
    options = ["--total-batch-size", 8, *REPORTS]
    one = run(place, "answers", tmp_path / "one", *options, "--update-freq", 2)
    two = run(place, "answers", tmp_path / "two", *options, processes=2)
    for part in ALL:
        assert len(one.log(f"valid_{part}")) == 2 and two.log(f"valid_{part}") == one.log(f"valid_{part}"), part


WRONG = {"plain": "choice-accuracy", "no-texts": "choice-f1-and-em", "three": "f1a-and-em"}


@pytest.mark.parametrize(("data", "metric"), WRONG.items())
def test_what_cannot_be_scored(place, data, metric, tmp_path):
    given = [f"--report-{metric}", "--num-classes", 3 if data == "three" else 2]
    assert given[0] in run(place, data, tmp_path, *given, succeed=False).last_line
    assert not list(tmp_path.rglob("*.pt"))


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_of_equally_likely_answers_the_first_of_the_folder_is_chosen(order):
    columns = {"_id": [0, 1, 2], "_answer": [1] * 3, "_target": [1, 0, 0], "_likely": [5] * 3, "_question": [0] * 3}
    meters = {name: SimpleNamespace(tensor=torch.tensor(values)[order]) for name, values in columns.items()}
    assert split_score("choice_accuracy", "choice_accuracy", meters) == 100


def test_likelihoods_are_not_saturated():
    """Both probabilities round to 1."""
    logits = torch.tensor([[-40.0, 40.0], [-41.0, 41.0]])
    sample = {"id": torch.tensor([0, 1]), "target": torch.tensor([1, 0]), "answers_question": torch.tensor([0, 0])}
    found = fetched_columns(["choice_accuracy"], logits, sample, one=1)
    assert found["_likely"] == [80.0, 82.0] and found["_answer"] == [1, 1] and found["_target"] == [1, 0]
