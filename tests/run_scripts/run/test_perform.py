"""When a run that is done has its scores on all tasks that are asked for, and damaged files of one that is not."""

import shutil
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from preprocess.checksums import content_digest
from preprocess.errors import InputError
from run_scripts.run import perform as performing
from run_scripts.run.experiment import Experiment, folder_digest
from run_scripts.run.perform import perform, unanswered
from run_scripts.run.records import run_folder
from tests.folders import write_indexed
from tests.run_scripts.tiny import FLAGS


@pytest.mark.parametrize("method", ["fine-tuning", "m-idpg-phm-glove"])
def test_word_vectors_of_another_task_count_for_runs_that_read_them(world, tmp_path, method):
    other = shutil.copytree(world.data / "RTE-bin", tmp_path / "WNLI-bin")
    run = Experiment("RTE", method, 1e-3, 1, "/RTE-bin", "/model.pt", eval_tasks=("WNLI",), eval_data=(str(other),))
    record = {"transfer": {"WNLI": {"data": content_digest(other, word_vectors=False)}}}
    assert unanswered({}, run) and not unanswered(record, run)
    (other / "glove").mkdir()
    np.save(other / "glove" / "valid.npy", np.zeros(3))
    folder_digest.cache_clear()
    assert bool(unanswered(record, run)) == (method != "fine-tuning")
    write_indexed(other / "label" / "valid", [[4, 2]])
    folder_digest.cache_clear()
    assert unanswered(record, run)


@pytest.fixture(scope="module")
def trained(world, quick_jobs, tmp_path_factory):
    """(an experiment, results with its run, which was stopped between its training and its evaluation)."""
    place = (str(world.data / "RTE-bin"), str(world.backbone), "roberta_idpg")
    more = {"dev_examples": 8, "batch_size": 8, "max_update": 4, "options": tuple(FLAGS)}
    experiment = Experiment("RTE", "prompt-tuning", 1e-2, 1, *place, **more)
    results = tmp_path_factory.mktemp("stopped")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(performing, "evaluate", Mock(side_effect=KeyboardInterrupt))
        perform(experiment, results)
    return experiment, results


def damaged(path):
    """Its form is whole, and some of its bytes are others."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 2000] = bytes(2000)
    path.write_bytes(content)


def test_a_damaged_checkpoint_is_named_and_a_stopped_run_goes_on(trained):
    """It is not trained again; with a damaged best checkpoint it answers no other task."""
    experiment, results = trained
    folder = run_folder(results, experiment.run)
    for name in ("checkpoint_last.pt", "checkpoint_best.pt"):
        whole = (folder / name).read_bytes()
        damaged(folder / name)
        with pytest.raises(InputError, match=str(folder / name)):
            perform(experiment, results)
        (folder / name).write_bytes(whole)
    epochs = (folder / "train.log").read_text().count("begin training epoch")
    assert perform(experiment, results)["status"] == "done"
    assert (folder / "train.log").read_text().count("begin training epoch") == epochs  # its updates had been made
    damaged(folder / "checkpoint_best.pt")
    more = replace(experiment, eval_tasks=("WNLI",), eval_data=(experiment.data,))
    with pytest.raises(InputError, match="checkpoint_best.pt .*WNLI"):
        perform(more, results)
