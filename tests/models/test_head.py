"""A head taken over from another task."""

from __future__ import annotations

import re

import pytest
import torch

from tests.folders import train, write_backbone, write_folder

HEAD = "classification_heads.sentence_classification_head."


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("head")
    write_backbone(folder / "model.pt")
    data = write_folder(folder / "two")
    write_folder(folder / "three", classes=3)
    train(data, folder / "first", "--backbone", folder / "model.pt", "--max-update", 3)
    return folder


def start(place, data, tmp_path, path, **more):
    return train(
        place / data,
        tmp_path,
        "--backbone",
        place / "model.pt",
        "--lr",
        0,
        "--max-update",
        1,
        "--head-init-from",
        path,
        **more,
    )


def test_starts_from_the_saved_head(place, tmp_path):
    checkpoint = place / "first" / "checkpoint_last.pt"
    start(place, "two", tmp_path, checkpoint)
    before, after = (torch.load(p, weights_only=True)["model"] for p in (checkpoint, tmp_path / "checkpoint_last.pt"))
    names = [name for name in before if name.startswith(HEAD)]
    assert len(names) == 4 and all(torch.equal(before[name], after[name]) for name in names)
    assert not torch.equal(before["method.bias"], after["method.bias"])


@pytest.mark.parametrize(
    ("data", "file", "message"),
    [
        ("three", "first/checkpoint_last.pt", r"\(2 classes\) does not fit this one \(3 classes\)"),
        ("two", "model.pt", r"\(none\) does not fit this one"),
        ("two", "nowhere.pt", "--head-init-from .*nowhere.pt is not a fairseq checkpoint"),
    ],
)
def test_heads_that_do_not_fit(place, tmp_path, data, file, message):
    options = ["--num-classes", 3] if data == "three" else []
    finished = train(
        place / data,
        tmp_path / "run",
        *("--backbone", place / "model.pt", "--max-update", 1, "--head-init-from", place / file, *options),
        succeed=False,
    )
    assert re.search(message, finished.last_line), finished.last_line
    assert not (tmp_path / "run" / "checkpoint_last.pt").exists()
