"""The task refuses a folder that is damaged, or that fairseq would read otherwise, by the name of the file."""

import shutil

import pytest

from fairseq_idpg.errors import InputError
from tests.folders import write_folder
from tests.tasks.test_dataset import make_task


def test_shards_are_checked_too(tmp_path):
    """fairseq reads train, train1, ... as one training set."""
    folder = write_folder(tmp_path, pairs=False)
    for part in ("input0", "label"):
        for suffix in ("bin", "idx"):
            shutil.copy(folder / part / f"valid.{suffix}", folder / part / f"train1.{suffix}")
    assert len(make_task(folder).load_dataset("train", combine=True)) == 24 + 13
    path = folder / "input0" / "train1.bin"
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    assert len(make_task(folder).load_dataset("train")) == 24
    with pytest.raises(InputError, match="input0/train1.bin example 1 has the id"):
        make_task(folder).load_dataset("train", combine=True)


def test_shards_have_no_scores(tmp_path):
    """fairseq reads the file of train alone, so that to make the same folder again would not help."""
    splits = {"train": 6, "train1": 2, "valid": 6}
    folder = write_folder(tmp_path / "d", splits=splits, regression=True)
    task = make_task(folder, regression_target=True, num_classes=1)
    with pytest.raises(InputError, match="train.label has 6 labels for 8 "):
        task.load_dataset("train", combine=True)
