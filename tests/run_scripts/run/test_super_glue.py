"""What a record says of SuperGLUE's tasks: scores of whole questions, and predictions that say the same."""

import numpy as np
import pytest

from preprocess.data_folder import DataFolder
from preprocess.split_scores import METRICS
from preprocess.tasks import find_task
from run_scripts.report.choice import Scope
from run_scripts.report.scores import Votes
from run_scripts.run.experiment import Experiment, splits_of
from run_scripts.run.perform import evaluate
from tests.folders import renamed, write_folder, write_questions
from tests.inference.saved import write_checkpoint
from tests.run_scripts.report import made

SPLITS, EACH = {"train": 24, "valid": 12}, 2
AGREEMENT = [1, 0.25, 0.5, 1, 0, 0.75] * 4


@pytest.fixture(scope="module")
def data(world, tmp_path_factory):
    place = tmp_path_factory.mktemp("superglue")
    folder = renamed(write_folder(place / "plain", splits=SPLITS), place / "answers", {"0": "1", "1": "0"})
    for split, count in SPLITS.items():
        write_questions(folder, split, [row // EACH for row in range(count)], AGREEMENT[:count])
    return folder


@pytest.mark.parametrize("name", ["COPA", "MultiRC", "ReCoRD"])
def test_a_record(name, data, world, tmp_path):
    task = find_task(name)
    experiment = Experiment(name, "m-idpg-phm", 1e-2, 1, str(data), str(world.backbone), options=("--cpu",))
    splits, place = splits_of(experiment, tmp_path / "data"), tmp_path / "runs" / "x"
    checkpoint = write_checkpoint(place / "checkpoint_best.pt", splits.folder.path, world.backbone)
    record = evaluate(experiment, splits, checkpoint, None)
    assert [record[split] for split in ("dev", "test")] == [scores[task.metric] for scores in record["scores"].values()]
    saved, questions = np.load(place / "predictions.npz"), DataFolder(data).questions("valid")
    assert saved["test_question"].tolist() == questions.number.tolist()
    assert set(saved["test"]) <= {0, 1} and set(saved["test_targets"]) == {0, 1}
    if task.by_choice:
        assert saved["test"].reshape(-1, EACH).sum(1).tolist() == [1] * (SPLITS["valid"] // EACH)
    found = METRICS[task.metric](saved["test"], saved["test_targets"], questions)
    assert {part: record["scores"]["test"][part] / 100 for part in found} == pytest.approx(found)
    run = made.run("a", name, predictions=str((place / "predictions.npz").relative_to(tmp_path)))
    assert Votes(tmp_path).of(Scope([run]).rows("row")["a"])[name] == pytest.approx(record["test"])
