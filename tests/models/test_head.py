"""A head taken over from another task: of the same classes, whatever their order; others are refused."""

import pytest
import torch

from fairseq_idpg.models.heads import load_head
from fairseq_idpg.saving.record import KeptRecord, Record
from preprocess.errors import InputError
from tests.folders import changed, train, write_backbone
from tests.helpers import tiny_model

NAME = "sentence_classification_head"
HEAD = f"classification_heads.{NAME}."


@pytest.fixture(scope="module")
def place(pairs, backbone, tmp_path_factory):
    """``first``: a training; ``mnli.pt``: a checkpoint of fairseq's own with one head, of another name."""
    folder = tmp_path_factory.mktemp("head")
    train(pairs, folder / "first", "--backbone", backbone, "--max-update", 3)
    write_backbone(folder / "model.pt")
    head = tiny_model(method="head-only").classification_heads[NAME].state_dict()
    mnli = {f"classification_heads.mnli.{name}": value for name, value in head.items()}
    changed(backbone, lambda state: state["model"].update(mnli), folder / "mnli.pt")
    return folder


def tensors(path):
    return torch.load(path, weights_only=True)["model"]


def test_a_training_starts_from_the_saved_head(place, pairs, backbone, tmp_path):
    checkpoint = place / "first" / "checkpoint_last.pt"
    train(pairs, tmp_path, "--backbone", backbone, "--lr", 0, "--max-update", 1, "--head-init-from", checkpoint)
    before, after = tensors(checkpoint), tensors(tmp_path / "checkpoint_last.pt")
    names = [name for name in before if name.startswith(HEAD)]
    assert len(names) == 4 and all(torch.equal(before[name], after[name]) for name in names)
    assert not torch.equal(before["method.bias"], after["method.bias"])


def test_classes_are_taken_over_by_name(place):
    checkpoint, model = place / "first" / "checkpoint_last.pt", tiny_model(method="head-only")
    load_head(model, str(checkpoint), NAME, Record(labels=["1", "0"]))
    before, after = tensors(checkpoint), model.classification_heads[NAME].state_dict()
    for part in ("weight", "bias"):
        assert torch.equal(after[f"out_proj.{part}"], before[f"{HEAD}out_proj.{part}"][[1, 0]])
        assert torch.equal(after[f"dense.{part}"], before[f"{HEAD}dense.{part}"])


def test_the_only_head_of_a_checkpoint_without_a_record_is_meant(place, caplog):
    model = tiny_model(method="head-only")
    load_head(model, str(place / "mnli.pt"), NAME, Record(labels=["1", "0"]))
    expected = tensors(place / "mnli.pt")["classification_heads.mnli.out_proj.weight"]
    assert torch.equal(model.classification_heads[NAME].state_dict()["out_proj.weight"], expected)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize(
    ("file", "classes", "ours"),
    [
        ("first/checkpoint_last.pt", 3, Record(labels=["0", "1", "2"])),
        ("first/checkpoint_last.pt", 2, Record(labels=["no", "yes"])),
        ("model.pt", 2, Record(labels=["0", "1"])),
        ("nowhere.pt", 2, Record(labels=["0", "1"])),
    ],
)
def test_heads_that_do_not_fit(place, file, classes, ours):
    with pytest.raises(InputError, match=f"^--head-init-from {place / file}"):
        load_head(tiny_model(heads=classes, method="head-only"), str(place / file), NAME, ours)


def test_scores_of_another_scale_are_refused(tmp_path):
    def saved(scale):
        model = tiny_model(heads=1, method="head-only")
        model.kept["record"] = KeptRecord(Record(regression=True, scale=scale), "DATA", None, False)
        torch.save({"args": None, "cfg": {"model": {"_name": "roberta_idpg"}}, "model": model.state_dict()}, path)

    path, model = tmp_path / "x.pt", tiny_model(heads=1, method="head-only")
    for scale in (5.0, None):
        saved(scale)
        load_head(model, str(path), NAME, Record(regression=True, scale=5))
    saved(1.0)
    with pytest.raises(InputError, match=f"^--head-init-from {path}"):
        load_head(model, str(path), NAME, Record(regression=True, scale=5))
