"""A head taken over from another task."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from fairseq_idpg.models.head import load_head, matching_rows, saved_head
from fairseq_idpg.saving.record import Record
from preprocess.errors import InputError
from tests.folders import renamed, train, write_backbone, write_folder
from tests.helpers import tiny_model

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


@pytest.mark.parametrize(("now", "told"), [("relu", True), ("tanh", False)])
def test_a_head_of_another_activation_is_told_of(place, tmp_path, now, told):
    more = ["--pooler-activation-fn", now, "--max-update", 1, "--backbone", place / "model.pt"]
    checkpoint = place / "first" / "checkpoint_last.pt"
    output = train(place / "two", tmp_path, *more, "--head-init-from", checkpoint).output
    assert ("its head was trained with --pooler-activation-fn tanh, and this run's has relu" in output) is told


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


def test_classes_are_taken_over_by_name(place, tmp_path):
    other = renamed(place / "three", tmp_path / "other", {name: name for name in "012"}, ["2", "0", "1"])
    first = tmp_path / "first"
    train(place / "three", first, "--backbone", place / "model.pt", "--max-update", 3, "--num-classes", 3)
    checkpoint = first / "checkpoint_last.pt"
    options = ["--backbone", place / "model.pt", "--lr", 0, "--max-update", 1, "--num-classes", 3]
    train(other, tmp_path / "second", *options, "--head-init-from", checkpoint)
    before, after = (
        torch.load(path, weights_only=True)["model"] for path in (checkpoint, tmp_path / "second/checkpoint_last.pt")
    )
    for part in ("weight", "bias"):
        rows = before[f"{HEAD}out_proj.{part}"]
        assert torch.equal(after[f"{HEAD}out_proj.{part}"], rows[[2, 0, 1]])
        assert torch.equal(after[f"{HEAD}dense.{part}"], before[f"{HEAD}dense.{part}"])


def test_classes_of_other_names_are_refused(place, tmp_path):
    other = renamed(place / "two", tmp_path / "other", {"0": "no", "1": "yes"})
    options = ["--backbone", place / "model.pt", "--head-init-from", place / "first" / "checkpoint_last.pt"]
    line = train(other, tmp_path / "run", *options, succeed=False).last_line
    assert "its head is for the labels 0, 1, and this run's are no, yes: leave the option out" in line


def record(**values):
    return Record(regression=True, **values)


def test_scores_of_another_scale_are_refused():
    assert (
        matching_rows(record(scale=5.0), record(scale=5), "FILE")
        == matching_rows(record(), record(scale=5), "FILE")
        == [0]
    )
    with pytest.raises(InputError, match="FILE: its head is for scores divided by 5, and this run's are divided by 1"):
        matching_rows(record(scale=5.0), record(scale=1.0), "FILE")


def test_heads_without_a_record_are_taken_with_a_warning(place, caplog):
    old = Path(__file__).parents[1] / "saving" / "of_version_0_1" / "run" / "checkpoint_best.pt"
    model = tiny_model(encoder_layers=2, encoder_embed_dim=16, encoder_ffn_embed_dim=32, phm_n=4, prompt_length=5)
    load_head(model, str(old), "sentence_classification_head", Record())
    assert caplog.text.count("records no label names") == 1


OLD = Path(__file__).parents[1] / "saving" / "of_version_0_1" / "run" / "checkpoint_best.pt"


def test_a_head_of_before_the_activation_was_an_option(tmp_path, caplog):
    """fairseq's own default, where a checkpoint is older than the option."""
    state = torch.load(OLD, weights_only=True)
    assert state["cfg"]["model"].pop("pooler_activation_fn")
    torch.save(state, tmp_path / "x.pt")
    model = tiny_model(encoder_layers=2, encoder_embed_dim=16, encoder_ffn_embed_dim=32, phm_n=4, prompt_length=5)
    load_head(model, str(tmp_path / "x.pt"), "sentence_classification_head", Record())
    assert "--pooler-activation-fn" not in caplog.text


def test_which_head_of_a_checkpoint_is_meant():
    """The only head, whatever its name; of several the one that is asked for, or none."""
    one = {"classification_heads.mnli.dense.bias": torch.ones(2)}
    two = {**one, "classification_heads.rte.dense.bias": torch.zeros(2)}
    assert saved_head(one, "sentence_classification_head").keys() == {"dense.bias"}
    assert not saved_head(two, "rte")["dense.bias"].any() and saved_head(two, "x") == {}
