"""Predictions for sentences in memory are those for a binarized folder, in any order and batches; prompt rows; EFL."""

import warnings

import numpy as np
import pytest
import torch

from fairseq_idpg import load
from fairseq_idpg.backbone.injection import States
from fairseq_idpg.errors import InputError
from fairseq_idpg.inference.folder import load_on_folder, predict_split
from fairseq_idpg.representations.kinds import sentence_representation
from preprocess.splits import EFL_DESCRIPTIONS
from tests.folders import write_backbone, write_folder
from tests.inference.conftest import KINDS, LABELS, inputs, texts
from tests.inference.saved import write_checkpoint
from tests.preprocess.commands import make_folder


def outputs_of_folder(checkpoint, folder, cache=None) -> np.ndarray:
    """Logits, or scores as they are trained on."""
    model, task = load_on_folder(str(checkpoint), str(folder), cpu=True, representation_cache=cache and str(cache))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "'pin_memory'")
        return predict_split(model, task, "valid").outputs


@pytest.mark.parametrize("kind", KINDS)
def test_as_on_a_folder(kind, idpg, folders, tmp_path):
    model = load(idpg(kind), device="cpu")
    found, outputs = model.predict(inputs(kind), batch_size=5), outputs_of_folder(idpg(kind), folders[kind], tmp_path)
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
    with pytest.raises(InputError, match="input 2: .*truncate"):
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


@torch.no_grad()
def generated_rows(model, net_input, layer):
    """The rows that a generator makes at ``layer`` from a batch: B x t x d."""
    m_of_x = sentence_representation(model.encoder, net_input["src_tokens"], kind=model.method.representation)
    _, extra = model(**net_input, features_only=True, return_all_hiddens=True)
    return model.method.begin_pass(m_of_x)(layer, States(extra["inner_states"][layer]))


def made(place, folders, path, *options):
    return load(write_checkpoint(path, folders["pairs"], place / "backbone" / "model.pt", *options), device="cpu")


@pytest.mark.parametrize("insertion", ["add", "replace", "late"])
def test_rows_of_every_layer_are_those_that_were_generated(insertion, place, folders, tmp_path):
    options = ["--method", "m-idpg-dnn", "--prompt-length", 3, "--prompt-insertion", insertion]
    model = made(place, folders, tmp_path / "x.pt", *options)
    model.task.cfg.data = str(folders["pairs"])
    dataset = model.task.load_dataset("valid")
    net_input = dataset.collater([dataset[i] for i in range(16)])["net_input"]
    predictions = model.predict(inputs("pairs"), batch_size=4, prompts=True)
    assert all([row.layer for row in each.prompts] == [0, 0, 0, 1, 1, 1, 2, 2, 2] for each in predictions)
    for layer in range(3):
        expected = generated_rows(model.model, net_input, layer)
        rows = ([row.vector for row in each.prompts if row.layer == layer] for each in predictions)
        found = torch.stack([*map(torch.stack, rows)])
        assert found.shape == (16, 3, 32) and torch.allclose(found, expected, atol=1e-5)
        assert (found[0] - found[1]).abs().max() > 1e-4
    assert predictions[0].plain()["prompt_layers"] == [row.layer for row in predictions[0].prompts]


def test_rows_belong_to_whoever_asked(place, folders, tmp_path):
    """Of a prompt for all inputs, too, they are numbers of their own, not the model's parameter."""
    model = made(place, folders, tmp_path / "x.pt", "--method", "p-tuning-v2", "--prompt-length", 3)
    first, second = ([row.vector for row in p.prompts] for p in model.predict(inputs("pairs")[:2], prompts=True))
    expected = model.model.method.table.flatten(0, 1).clone()
    first[0].numpy()[:] = 100  # refused of what has a gradient
    assert torch.equal(torch.stack(second), expected)
    assert torch.equal(model.model.method.table.flatten(0, 1), expected)
    with pytest.raises(InputError, match="words 1000"):
        model.predict([("a", "b")], prompts=True, words=1000)


@pytest.fixture(scope="module")
def data(place):
    splits = {
        split: [(text, str(number % 2)) for number, (text,) in enumerate(texts(16, 1, seed))]
        for seed, split in enumerate(("train", "valid"))
    }
    return make_folder(place, "SST-2", splits, "--efl", "--labels", 1, 0, "--vocab", place / "vocab")


def test_a_sentence_has_the_class_that_its_description_has(place, data):
    path = write_checkpoint(place / "efl.pt", data, place / "backbone" / "model.pt", "--method", "efl")
    model, sentences = load(path, "cpu"), [text for (text,) in texts(16, 1, 1)]
    classes = model.predict(sentences)
    pairs = model.predict([(text, EFL_DESCRIPTIONS["SST-2"]["1"]) for text in sentences])
    for of_class, of_pair in zip(classes, pairs):
        assert of_pair.probabilities.keys() == {"entailment", "not_entailment"}
        assert of_class.probabilities.keys() == {"0", "1"}
        assert of_class.probabilities["1"] == pytest.approx(of_pair.probabilities["entailment"], abs=1e-6)
        assert of_class.label == ("1" if of_pair.label == "entailment" else "0")
        assert isinstance(of_class.text, str)


def test_sentences_among_several_tasks(place, data, folders):
    """One list of sentences: a task of entailment pairs gives their classes, one of sentences its own."""
    folders, backbone = {"described": data, "plain": folders["singles"]}, place / "backbone" / "model.pt"
    idpg = ["--method", "m-idpg-phm", "--phm-n", 4]  # with M(x) of other tokens
    paths = {name: write_checkpoint(place / f"{name}.pt", folder, backbone, *idpg) for name, folder in folders.items()}
    sentences = [text for (text,) in texts(8, 1, 1)]
    found = load(paths, device="cpu").predict(sentences, batch_size=5)
    for name, path in paths.items():
        for together, alone in zip(found, load(path, device="cpu").predict(sentences)):
            assert together[name].label == alone.label
            assert together[name].probabilities == pytest.approx(alone.probabilities, abs=1e-6)
    assert set(found[0]["described"].probabilities) == {"0", "1"}
