"""When a run that is done has its scores on all tasks that are asked for."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from preprocess.checksums import content_digest
from run_scripts.run.experiment import Experiment, folder_digest
from run_scripts.run.perform import is_whole
from tests.folders import write_indexed


@pytest.mark.parametrize("method", ["fine-tuning", "m-idpg-phm-glove"])
@pytest.mark.parametrize("recorded", [False, True], ids=["texts", "word vectors too"])
def test_word_vectors_of_another_task_count_for_runs_that_read_them(world, tmp_path, method, recorded):
    """Records of before tell the digest of all that is there."""
    folder_digest.cache_clear()
    other = shutil.copytree(world.data / "RTE-bin", tmp_path / "WNLI-bin")
    run = Experiment("RTE", method, 1e-3, 1, "/RTE-bin", "/model.pt", eval_tasks=("WNLI",), eval_data=(str(other),))
    record = {"transfer": {"WNLI": {"data": content_digest(other, word_vectors=recorded)}}}
    assert is_whole(record, run) and not is_whole({}, run)
    (other / "glove").mkdir()
    np.save(other / "glove" / "valid.npy", np.zeros(3))
    folder_digest.cache_clear()
    assert is_whole(record, run) == (method == "fine-tuning")
    record["transfer"]["WNLI"]["data"] = content_digest(other, word_vectors=True)
    assert is_whole(record, run)
    write_indexed(other / "label" / "valid", [[4, 2]])
    folder_digest.cache_clear()
    assert not is_whole(record, run)
