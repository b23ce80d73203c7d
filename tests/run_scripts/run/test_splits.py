"""What a run trains, selects and reports on."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from preprocess.data_folder import DataFolder, check_split
from run_scripts.run import experiment
from run_scripts.run.experiment import folder_digest, splits_of
from tests.representations.test_word_vectors import write_vectors
from tests.run_scripts.tiny import SPLITS


def sizes(found):
    return {split: check_split(found.folder, split) for split in found.folder.splits}


def rows(found) -> dict[str, list[int]]:
    record = json.loads((found.folder.path / "few_shot.json").read_text())
    return {split: record[f"{split}_rows"] for split in ("train", "valid")}


def test_clean_selection_holds_a_tenth_of_the_training_set_out(rte, tmp_path):
    found = splits_of(rte, tmp_path)
    assert sizes(found) == {"train": 22, "valid": 2, "test": SPLITS["valid"]}
    assert (found.dev, found.reported) == ("valid", "test")
    assert sorted(rows(found)["train"] + rows(found)["valid"]) == list(range(24))
    assert splits_of(replace(rte, seed=2, method="adapter", lr=1.0), tmp_path).folder.path == found.folder.path


def test_the_papers_selection_is_on_what_is_reported(rte, tmp_path):
    found = splits_of(replace(rte, selection="paper"), tmp_path)
    assert found.folder.path == Path(rte.data) and (found.dev, found.reported) == ("valid", "valid")
    supplementary = splits_of(replace(rte, supplementary=True), tmp_path)
    assert (supplementary.folder.path, supplementary.reported) == (Path(rte.data), "valid")
    assert not list(tmp_path.iterdir())


def test_few_shot_draws_anew_for_each_seed(rte, tmp_path):
    few = replace(rte, k=10, dev_examples=5)
    found = [splits_of(replace(few, seed=seed), tmp_path) for seed in (1, 2)]
    assert all(sizes(one) == {"train": 10, "valid": 5, "test": SPLITS["valid"]} for one in found)
    assert rows(found[0]) != rows(found[1])


@pytest.mark.parametrize(
    ("examples", "more", "expected"),
    [
        (67_349, {}, (66_349, 1000, 0)),
        (2490, {}, (2241, 249, 0)),
        (2490, {"dev_examples": 100}, (2390, 100, 0)),
        (67_349, {"k": 100}, (100, 1000, 7)),
        (1775, {"k": 1000}, (1000, 775, 7)),
    ],
)
def test_how_many_are_drawn_of_real_training_sets(rte, monkeypatch, examples, more, expected):
    """Frozen: other sizes, or another seed for all methods, would silently change every result."""
    monkeypatch.setattr(experiment, "count_drawn", lambda source: examples)
    assert experiment.drawn(replace(rte, seed=7, **more), DataFolder(Path(rte.data))) == expected


def test_word_vectors_that_come_later_are_in_a_new_copy(rte, tmp_path):
    ours = replace(rte, data=str(shutil.copytree(rte.data, tmp_path / "RTE-bin")))
    before = splits_of(ours, tmp_path).folder.path
    write_vectors(tmp_path / "RTE-bin", width=8)
    folder_digest.cache_clear()
    after = splits_of(ours, tmp_path).folder.path
    assert after != before and len(np.load(after / "glove" / "train.npy")) == 22
