"""Predictions for sentences in memory are those for a binarized folder, in any order and any batches."""

from __future__ import annotations

import numpy as np
import pytest

from fairseq_idpg import load
from fairseq_idpg.inference.folder import load_on_folder, predict_split
from preprocess.errors import InputError
from tests.folders import write_backbone, write_folder
from tests.inference.conftest import KINDS, LABELS, texts
from tests.inference.saved import write_checkpoint


def inputs(kind: str) -> list:
    """The texts of the validation split, as ``predict`` takes them."""
    return [parts if len(parts) == 2 else parts[0] for parts in texts(16, KINDS[kind], seed=1)]


def outputs_of_folder(checkpoint, folder) -> np.ndarray:
    """Logits, or scores as they are trained on."""
    model, task = load_on_folder(str(checkpoint), str(folder), cpu=True)
    return predict_split(model, task, "valid").outputs


@pytest.mark.parametrize("kind", KINDS)
def test_as_on_a_folder(kind, idpg, folders):
    checkpoint = idpg(kind)
    found = load(checkpoint, device="cpu").predict(inputs(kind), batch_size=5)
    outputs = outputs_of_folder(checkpoint, folders[kind])
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
    checkpoints = [
        write_checkpoint(place / f"{swap}.pt", folders["pairs"], place / "backbone" / "model.pt", "--swap-pairs", swap)
        for swap in ("none", "append")
    ]
    once, both = (
        predict_split(*load_on_folder(str(path), str(folders["pairs"]), cpu=True), "train") for path in checkpoints
    )
    assert len(both.outputs) == 16 and np.array_equal(both.outputs, once.outputs)
    assert np.array_equal(both.targets, once.targets)


class Table(list):
    """As a data frame, which is iterated over by the names of its columns."""

    columns = ("sentence",)

    def __repr__(self):
        return "a table"


def test_what_is_no_input_is_refused(idpg):
    singles, pairs = (load(idpg(kind), device="cpu") for kind in ("singles", "pairs"))
    for model, given, message in (
        (singles, "red cat", "takes a list of texts, not 'red cat'"),
        (singles, {"sentence": "red cat"}, "takes a list of texts, not {'sentence': 'red cat'}: put it, or one of its"),
        (singles, Table(), "takes a list of texts, not a table: put it, or one of its columns, into one"),
        (singles, b"red", "takes a list of texts, not b'red'"),
        (singles, None, "takes a list of texts, not None"),
        (singles, ["red", ("red", "cat")], "input 2 is a pair of sentences, and .* single sentences: give a single"),
        (pairs, [("red", "cat"), "red"], "input 2 is a single sentence, and .* pairs of sentences: give a pair"),
        (pairs, [("red", "cat", "dog")], "input 1 is 3 sentences"),
        (singles, ["red", None], "input 2 is not text: None"),
        (singles, ["red", "\ud800"], "input 2 is not text"),
        (singles, ["red", ""], "^input 2: an empty sentence: give text$"),
        (singles, [" \t"], "^input 1: a sentence of white space: give text$"),
        (pairs, [("red", "cat"), ("red", " ")], "^input 2: the second sentence is empty: give text$"),
        (singles, ["cat " * 40], "input 1 has [0-9]+ tokens, and this model takes [0-9]+ beside its prompt"),
    ):
        with pytest.raises(InputError, match=message):
            model.predict(given)
    assert singles.predict([]) == []


@pytest.mark.parametrize("size", [0, -1, 2.5, 2.0, float("nan"), True, "3", None])
def test_sizes_are_whole_numbers(idpg, size):
    model = load(idpg("singles"), device="cpu")
    for name in ("batch_size", "words"):
        with pytest.raises(InputError, match=f"^{name} {size!r} is no size: give a whole number, 1 or more$"):
            model.predict(["red"], **{name: size})


def test_sizes_of_any_type_of_whole_numbers(idpg):
    alone, many = (load(given, device="cpu") for given in (idpg("singles"), {"own": idpg("singles")}))
    (expected,) = alone.predict(["red"])
    for size in (np.int64(2), np.uint8(2)):
        assert alone.predict(["red"], batch_size=size, words=size) == [expected]
        assert many.predict(["red"], batch_size=size)[0]["own"].label == expected.label
    with pytest.raises(InputError, match="^batch_size 2.5 is no size"):
        many.predict(["red"], batch_size=2.5)


@pytest.mark.parametrize("value", ["no", "false", "", 0, 1, None])
def test_switches_are_true_or_false(idpg, value):
    """A string is true in Python, whatever it says."""
    refused = f" {value!r} is neither True nor False: give one of them$"
    for name in ("truncate", "fp16", "int8"):
        with pytest.raises(InputError, match=f"^{name}{refused}"):
            load(idpg("singles"), device="cpu", **{name: value})
    alone, many = (load(given, device="cpu") for given in (idpg("singles"), {"own": idpg("singles")}))
    for model, name in ((alone, "features"), (alone, "prompts"), (alone, "progress"), (many, "progress")):
        with pytest.raises(InputError, match=f"^{name}{refused}"):
            model.predict(["red"], **{name: value})
    assert alone.predict(["red"], features=np.True_)[0].features is not None


@pytest.mark.parametrize("given", [None, 5, b"x.pt"])
def test_what_is_no_checkpoint_is_refused(given):
    with pytest.raises(InputError, match=f"^load takes a checkpoint, a list of some or .*, not {given!r}$"):
        load(given)


@pytest.mark.parametrize("method", ["truncate", "random_crop"])
def test_a_text_is_no_split_that_may_be_cut(place, folders, method, caplog):
    """A model that cut the examples of its training split alone takes whole texts; each is called by its name."""
    options = ["--shorten-method", method, "--shorten-data-split-list", "train"]
    path = write_checkpoint(place / f"{method}.pt", folders["singles"], place / "backbone" / "model.pt", *options)
    with pytest.raises(
        InputError, match="^input 2 has [0-9]+ tokens, .*: shorten it, or let texts be cut at their ends with truncate"
    ):
        load(path, device="cpu").predict(["red", "cat " * 40])
    found = load(path, device="cpu", truncate=True).predict(["red", "cat " * 40])
    assert [each.cut for each in found] == [False, True]
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "shortening 1 examples to" in warning.getMessage()


def test_where_training_drew_windows_prediction_keeps_beginnings(tmp_path):
    folder, backbone = write_folder(tmp_path / "data", longest=90), write_backbone(tmp_path / "model.pt")
    windows, beginnings = (
        write_checkpoint(tmp_path / f"{method}.pt", folder, backbone, "--shorten-method", method)
        for method in ("random_crop", "truncate")
    )
    np.testing.assert_array_equal(outputs_of_folder(windows, folder), outputs_of_folder(beginnings, folder))
