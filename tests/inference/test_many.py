"""Several tasks on one backbone answer as each does by itself."""

import contextlib
import os
import shutil

import numpy as np
import pytest

from fairseq_idpg import load
from fairseq_idpg.errors import InputError, ModelLost
from fairseq_idpg.inference.many import ManyTasks
from tests.folders import write_backbone
from tests.inference.conftest import BYTES, inputs
from tests.inference.saved import write_checkpoint

PHM = ["--phm-n", 4]
MIXED = {  # name: options; different lengths and positions, M(x) of every kind, weights that are not merged
    "m-idpg": ["--method", "m-idpg-phm", *PHM],
    "m-idpg of <s>": ["--method", "m-idpg-dnn", "--representation", "backbone", "--prompt-position", 2],
    "mean": ["--method", "s-idpg-dnn", "--representation", "mean-pooled", "--prompt-position", 3],
    "last states": ["--method", "id-spam", "--prompt-layers", 1, "--generator-input", "last"],
    "glove": ["--method", "m-idpg-phm-glove", *PHM, "--generator-hidden-size", 8],
    "prompt tuning": ["--method", "prompt-tuning", "--prompt-length", 7, "--prompt-position", 1],
    "keys": ["--method", "p-tuning-v2-kv", "--prompt-length", 4],
    "late": ["--method", "lpt-naive", "--prompt-length", 6, "--prompt-layers", 1],
    "lora": ["--method", "lora-all"],
    "head": ["--method", "head-only"],
    "head on M(x)": ["--method", "head-on-representation"],
}


@pytest.fixture(scope="module")
def saved(place, folders):
    def write(kind: str, name: str, *options: object, backbone=None):
        path = place / "many" / kind / f"{name.replace(' ', '-')}.pt"
        if not path.exists():
            options = options or MIXED[name]
            write_checkpoint(path, folders[kind], backbone or place / "backbone/model.pt", *options, without="--phm-n")
        return path

    return write


@pytest.fixture(scope="module")
def mixed(saved):
    """{name: checkpoint} of all methods, trained on pairs."""
    return {name: saved("pairs", name) for name in MIXED}


@pytest.fixture(scope="module")
def many(mixed, vectors):
    return load(mixed, device="cpu", vectors=vectors)


def values(predictions) -> np.ndarray:
    return np.array([list(p.probabilities.values()) or [p.score] for p in predictions])


def of_task(answers, task: str) -> np.ndarray:
    return values([answer[task] for answer in answers])


@pytest.fixture(scope="module")
def together(many):
    return many.predict(inputs("pairs"), batch_size=6)


@pytest.mark.parametrize("task", MIXED)
def test_each_answers_as_alone(task, together, mixed, vectors):
    texts = inputs("pairs")
    expected = values(load(mixed[task], device="cpu", vectors=vectors).predict(texts, batch_size=5))
    assert of_task(together, task) == pytest.approx(expected, abs=1e-5)
    assert [answer[task].text for answer in together] == texts
    assert np.ptp(expected[:, 0]) > 1e-4  # inputs matter


def test_each_text_is_represented_once(many):
    texts, passes = inputs("pairs"), []
    encoder = many["m-idpg"].model.encoder
    hook = encoder.register_forward_hook(lambda module, given, out: passes.append(len(out[0])))
    try:
        many.predict(texts, batch_size=8)
    finally:
        hook.remove()
    kinds = {"backbone", "mean-pooled", "last-states"}
    assert passes == [8] * (2 * (len(kinds) + len(MIXED)))  # in each batch one for each kind, and one for each task


def test_one_backbone_in_memory(many):
    places = [{p.data_ptr() for p in many[name].model.encoder.parameters()} for name in many.names]
    assert all(place == places[0] for place in places) and len(places) == len(MIXED)
    assert not many["lora"].model.method.merged  # its changes would be everybody's


def test_some_tasks_and_one_of_them(many, together):
    texts = inputs("pairs")[:5]
    found = many.predict(texts, tasks=["keys", "late"], batch_size=1)
    assert [list(answer) for answer in found] == [["keys", "late"]] * 5
    for name in ("keys", "late"):
        assert of_task(found, name) == pytest.approx(of_task(together[:5], name), abs=1e-5)
    assert values(many["lora"].predict(texts)) == pytest.approx(of_task(together[:5], "lora"), abs=1e-5)
    assert many.predict([]) == []
    for tasks in ([], "mnli", ["late", "mnli"]):
        with pytest.raises(InputError, match="m-idpg, "):
            many.predict(texts, tasks)


def test_a_backbone_that_is_written_to_ends_each_task(place, saved, tmp_path):
    backbone = shutil.copy(place / "backbone" / "model.pt", tmp_path)
    many = load({name: saved("pairs", name) for name in ("head", "late")}, device="cpu", backbone=backbone)
    os.utime(backbone, (0, 0))
    for task in many.names:
        with pytest.raises(ModelLost, match="written to"):
            many.predict(inputs("pairs"), tasks=task)


def test_a_task_alone_under_its_name(saved):
    """Also of a model that shares no backbone."""
    texts, tuned = inputs("pairs"), saved("pairs", "bitfit", "--method", "bitfit")
    expected = values(load(tuned, device="cpu").predict(texts))
    many = load({"a": tuned}, device="cpu")
    assert of_task(many.predict(texts), "a") == pytest.approx(expected, abs=1e-5)
    with pytest.raises(ValueError):
        many.predict(texts, batch_size=-1)


def test_what_cannot_share_is_refused(saved, tmp_path):
    tuned, late = (saved("pairs", name) for name in ("prompt tuning", "late"))
    write_backbone(tmp_path / "model.pt", seed=1, words=BYTES)
    for paths, named in (
        ([tuned, late], "'NAME'"),
        ([tuned, saved("pairs", "bitfit", "--method", "bitfit")], "--method bitfit"),
        ({"a": tuned, "b": saved("pairs", "moved", *MIXED["late"], backbone=tmp_path / "model.pt")}, "moved.pt"),
    ):
        with pytest.raises(InputError, match=named):
            load(paths, device="cpu")


def test_a_whole_model_with_a_rounded_backbone_is_refused(saved):
    """As --fp16 --save-full-model leaves it; the digest is that of the file."""

    def opened(path):
        predictor = load(path, device="cpu")
        if "whole" in path and rounded:
            predictor.model.encoder.half().float()
        return predictor

    whole = ("b", saved("pairs", "whole", "--method", "head-only", "--save-full-model"))
    for rounded in (False, True):
        for tasks in ([("a", saved("pairs", "late")), whole], [whole, ("a", saved("pairs", "late"))]):
            with pytest.raises(InputError, match="other weights") if rounded else contextlib.nullcontext():
                ManyTasks(opened, tasks)


@pytest.mark.parametrize("part", ["encoder", "dictionary"])
def test_another_way_from_text_to_ids_is_refused(part, saved):
    def opened(path):
        predictor = load(path, device="cpu")
        if "head" in path and part == "encoder":
            predictor.text.encoder.fingerprint = lambda: "0" * 64
        elif "head" in path:
            predictor.text.dictionary.symbols[9] += "x"
        return predictor

    with pytest.raises(InputError, match=part):
        ManyTasks(opened, [("first", saved("pairs", "late")), ("second", saved("pairs", "head"))])
