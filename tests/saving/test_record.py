"""The record of a model's data: what it refuses, and how it is read back."""

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.saving.record import (
    KeptRecord,
    Record,
    check_same_data,
    read_record,
    saved_record,
    symbols_fingerprint,
)
from fairseq_idpg.tasks.folder import LabelOrder, class_names, folder_record
from preprocess.errors import InputError
from tests.helpers import dictionary_of

OURS = Record(
    **{"task": "MRPC", "regression": False, "labels": ["1", "0"], "pairs": True, "prompt_position": 0, "bpe": "gpt2"},
    **{"tokens": {"--init-token": 0, "--separator-token": 2}, "dictionary": "a" * 64, "bpe_sha256": "b" * 64},
)
SCORES = replace(OURS, regression=True, labels=None, scale=5.0)


def test_what_is_saved_is_read_back():
    assert read_record(asdict(Record())) == Record()
    assert read_record({**asdict(OURS), "of_a_later_version": [1]}) == OURS
    assert saved_record({"_extra_state": {"record": asdict(OURS)}}, "x") == OURS
    assert saved_record({"_extra_state": {}}, "x") is saved_record({}, "x") is None


@pytest.mark.parametrize(
    "state", [None, {"labels": [["1"]]}, {"tokens": {"--init-token": 0.5}}, {"scale": float("nan")}]
)
def test_damaged_records_are_refused(state):
    with pytest.raises(InputError, match="FILE"):
        read_record(state, "FILE")


@pytest.mark.parametrize(
    ("theirs", "changed", "named"),
    [
        (SCORES, {"regression": False}, "--regression-target"),
        (OURS, {"pairs": False}, "DATA has single sentences"),
        (OURS, {"tokens": {"--init-token": 0, "--separator-token": None}}, "--separator-token"),
        (OURS, {"dictionary": "c" * 64}, "dictionary of DATA"),
        (OURS, {"bpe": "bert"}, "--bpe of DATA .bert"),
        (OURS, {"bpe_sha256": "d" * 64}, "--vocab of DATA"),
        (SCORES, {"scale": 1}, "scale of DATA .1."),
    ],
)
def test_what_differs_is_named(theirs, changed, named):
    with pytest.raises(InputError, match=named):
        check_same_data(theirs, replace(theirs, **changed), "DATA")
    check_same_data(theirs, replace(theirs, **dict.fromkeys(changed)), "DATA")  # what is not known refuses nothing
    check_same_data(replace(theirs, **dict.fromkeys(changed)), replace(theirs, **changed), "DATA")


def kept(training=True, **changed):
    return KeptRecord(replace(OURS, **changed), "DATA", follow=None, training=training)


def test_a_checkpoints_record_takes_the_place_of_the_folders():
    theirs = asdict(replace(OURS, labels=["0", "1"], task="QQP", bpe=None, prompt_position=1))
    section = kept()
    assert section.state_dict() == asdict(OURS)
    section.load_state_dict(theirs)
    assert section.of_model == replace(OURS, labels=["0", "1"])  # trained on, the model is of this folder's task
    section = kept(training=False)
    section.load_state_dict(theirs)
    assert section.of_model == replace(OURS, labels=["0", "1"], task="QQP", prompt_position=1)


@pytest.mark.parametrize(("before", "now"), [(6, None), (None, 6), (6, 8)])
def test_a_model_that_is_trained_on_has_the_length_of_its_new_folder(before, now):
    """What is not trained on keeps its own; a folder without an encoder does not say how much it kept."""
    for section, expected in (
        (kept(max_length=now), now),
        (kept(training=False, max_length=now), before or now),
        (kept(bpe=None), before),
    ):
        section.load_state_dict(asdict(replace(OURS, max_length=before)))
        assert section.of_model.max_length == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "told"),
    [
        ({"prompt_position": 1}, {}, "--prompt-position 1: this checkpoint was trained with 0"),
        ({"prompt_position": None}, {}, None),
        ({"scale": 5.0}, {"scale": None}, "its outputs are multiplied by 5, by which those of"),
        ({"scale": 5.0}, {"scale": 5.0}, None),
    ],
)
def test_what_a_prediction_is_told(ours, theirs, told, caplog):
    kind = {"regression": True, "labels": None} if "scale" in ours else {}
    section = kept(training=False, **kind, **ours)
    section.load_state_dict(asdict(replace(OURS, **kind, **theirs)))
    assert section.of_model.scale == ours.get("scale")
    assert told in caplog.text if told else not caplog.text


def dictionary(names):
    return dictionary_of([*names, "madeupword0000", "<mask>"])


@given(
    st.lists(st.text("abc01", min_size=1), min_size=2, max_size=9, unique=True).flatmap(
        lambda names: st.tuples(st.just(names), st.permutations(names), st.lists(st.integers(0, len(names) - 1)))
    )
)
def test_examples_keep_the_names_of_their_labels(drawn):
    folder, model, labels = drawn
    order = LabelOrder(dictionary(folder), "DATA", len(folder))
    assert order(torch.tensor(labels)).tolist() == labels
    order.take_order(model)
    mapped = order(torch.tensor([labels], dtype=torch.long))
    assert [model[label] for label in mapped[0]] == [folder[label] for label in labels]
    assert class_names(order.dictionary) == model
    assert all(order.dictionary.index(name) == 4 + number for number, name in enumerate(model))
    assert order.dictionary.symbols[4 + len(model) :] == ["madeupword0000", "<mask>"]
    order.take_order(folder)  # such as by another checkpoint
    assert order(torch.tensor(labels)).tolist() == labels


def test_a_folder_of_other_labels_and_one_without():
    with pytest.raises(InputError, match="DATA/label/dict.txt"):
        LabelOrder(dictionary("01"), "DATA", 2).take_order(["yes", "no"])
    with pytest.raises(InputError, match="--num-classes 3"):
        LabelOrder(Dictionary(), "DATA", 3).take_order(["yes", "no"])
    order = LabelOrder(Dictionary(), "DATA", 2)
    order.take_order(["yes", "no"])
    assert class_names(order.dictionary) == ["yes", "no"]
    assert order.dictionary.string(torch.tensor([5, 4])) == "no yes"


def test_what_is_known_of_a_folder(tmp_path):
    record = {"task": "STS-B", "bpe": "gpt2", "vocab": "/vocab", "vocab_sha256": "b" * 64, "scale": 5.0}
    (tmp_path / "preprocess.json").write_text(json.dumps(record))
    (tmp_path / "input0").mkdir()
    (tmp_path / "input0" / "dict.txt").write_text("a 1\nb 1\n")
    cfg = SimpleNamespace(
        data=str(tmp_path), regression_target=True, init_token=0, separator_token=2, prompt_position=1
    )
    found = folder_record(cfg, dictionary("ab"), [])
    assert found == Record(
        **{"task": "STS-B", "regression": True, "scale": 5.0, "pairs": False, "prompt_position": 1, "bpe": "gpt2"},
        **{"tokens": {"--init-token": 0, "--separator-token": None}, "bpe_sha256": "b" * 64, "vocab": "/vocab"},
        dictionary=symbols_fingerprint(dictionary("ab")),
    )
    (tmp_path / "preprocess.json").unlink()
    assert folder_record(cfg, dictionary("ab"), []).bpe is None
