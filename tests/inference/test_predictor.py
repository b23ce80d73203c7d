"""Predictions for sentences in memory are those for a binarized folder, in any order and any batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fairseq_idpg import load
from fairseq_idpg.errors import InputError
from fairseq_idpg.inference.folder import load_on_folder, predict_split
from tests.folders import write_backbone, write_folder
from tests.inference.conftest import KINDS, LABELS, inputs
from tests.inference.saved import write_checkpoint


def outputs_of_folder(checkpoint, folder) -> np.ndarray:
    """Logits, or scores as they are trained on."""
    model, task = load_on_folder(str(checkpoint), str(folder), cpu=True)
    return predict_split(model, task, "valid").outputs


@pytest.mark.parametrize("kind", KINDS)
def test_as_on_a_folder(kind, idpg, folders):
    model = load(idpg(kind), device="cpu")
    found, outputs = model.predict(inputs(kind), batch_size=5), outputs_of_folder(idpg(kind), folders[kind])
    assert model.predict([]) == []
    if kind == "scores":
        assert [p.score for p in found] == pytest.approx(5 * outputs, abs=1e-5)
        assert {p.label for p in found} == {None} and not any(p.probabilities for p in found)
        return
    expected = np.exp(outputs) / np.exp(outputs).sum(1, keepdims=True)
    assert set(found[0].probabilities) == set(LABELS)
    assert np.array([list(p.probabilities.values()) for p in found]) == pytest.approx(expected, abs=1e-6)
    assert all(p.probability == max(p.probabilities.values()) == p.probabilities[p.label] for p in found)
    assert {p.score for p in found} == {None}


def test_exchanged_pairs_are_for_training_alone(place, folders):
    """Of a model that was trained with --swap-pairs append, the training split has one prediction for each example."""
    backbone, found = place / "backbone" / "model.pt", []
    for swap in ("none", "append"):
        path = write_checkpoint(place / f"{swap}.pt", folders["pairs"], backbone, "--swap-pairs", swap)
        found.append(predict_split(*load_on_folder(str(path), str(folders["pairs"]), cpu=True), "train"))
    once, both = found
    assert len(both.outputs) == 16 and np.array_equal(both.outputs, once.outputs)
    assert np.array_equal(both.targets, once.targets)


def test_a_text_is_no_split_that_may_be_cut(place, folders, caplog):
    """A model that cut the examples of its training split alone takes whole texts."""
    options = ["--shorten-method", "random_crop", "--shorten-data-split-list", "train"]
    path = write_checkpoint(place / "crop.pt", folders["singles"], place / "backbone" / "model.pt", *options)
    with pytest.raises(InputError, match="input 2 .*truncate"):
        load(path, device="cpu").predict(["red", "cat " * 40])
    found = load(path, device="cpu", truncate=True).predict(["red", "cat " * 40])
    assert [each.cut for each in found] == [False, True]
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


def test_where_training_drew_windows_prediction_keeps_beginnings(tmp_path):
    folder, backbone = write_folder(tmp_path / "data", longest=90), write_backbone(tmp_path / "model.pt")
    windows, beginnings = (
        write_checkpoint(tmp_path / f"{method}.pt", folder, backbone, "--shorten-method", method)
        for method in ("random_crop", "truncate")
    )
    np.testing.assert_array_equal(outputs_of_folder(windows, folder), outputs_of_folder(beginnings, folder))


def test_features_are_those_of_whoever_asked(idpg):
    """Without gradients, in memory of their own; callers keep their mode."""
    model = load(idpg("singles"), device="cpu")
    with torch.enable_grad():
        (found,) = model.predict(["red cat"], features=True)
        assert torch.is_grad_enabled() and not found.features.requires_grad
    assert found.features.untyped_storage().nbytes() == found.features.nbytes
