"""--predict-with mlm through the command line: train, resume, validate, predict; --prompt-init from words."""

import shutil

import numpy as np
import pytest
import torch

from fairseq_idpg import load as load_predictor
from fairseq_idpg.export import export
from fairseq_idpg.inference.folder import load_on_folder, predict_split
from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
from preprocess.errors import InputError
from tests.folders import renamed, same_tensors, saved, train, validate
from tests.helpers import ALWAYS_SAVED
from tests.phrases import PAIRS, SINGLES, write_language_model, write_texts

HEAD = "sentence_classification_head"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlm")
    write_texts(folder, "MR", SINGLES)
    write_texts(folder, "RTE", PAIRS)
    write_language_model(folder)
    return folder


def started(place, data, save_dir, *options, method="prompt-tuning", **more):
    usual = ["--backbone", place / "model.pt", "--method", method, "--predict-with", "mlm", "--lr", "1e-2"]
    without = "--phm-n" if method in ("lpt-naive", "fine-tuning") else ""
    return train(place / f"{data}-bin", save_dir, *usual, *options, without=without, **more)


@pytest.mark.parametrize(("data", "method"), [("MR", "prompt-tuning"), ("RTE", "lpt-naive")])
def test_a_run(place, tmp_path, data, method):
    whole = started(place, data, tmp_path / "whole", "--max-epoch", 4, method=method)
    assert "head 0," in whole.output
    state = torch.load(tmp_path / "whole" / "checkpoint_last.pt", weights_only=True)
    assert set(state["model"]) == {"method.table", *ALWAYS_SAVED} and state["model"]["method.table"].numel() == 5 * 32
    options, words = state["cfg"]["model"], "terrible,great" if data == "MR" else "Yes,No"
    template = "{0} . It was <mask> ." if data == "MR" else "{0} ? <mask> , {1}"
    assert (options["template"], options["verbalisers"]) == (template, words)
    started(place, data, tmp_path / "twice", "--max-epoch", 2, method=method)
    resumed = started(place, data, tmp_path / "twice", "--max-epoch", 4, method=method)
    assert resumed.log("valid_loss") == whole.log("valid_loss")[2:]
    assert same_tensors(saved(tmp_path / "twice"), state["model"])

    checkpoint, folder = tmp_path / "whole" / "checkpoint_last.pt", place / f"{data}-bin"
    validated = validate(folder, checkpoint)
    assert validated.log("valid_loss") == whole.log("valid_loss")[-1:]
    assert validated.log("valid_accuracy") == whole.log("valid_accuracy")[-1:]
    found = predict_split(*load_on_folder(str(checkpoint), str(folder), cpu=True), "valid")
    accuracy = 100 * np.mean(found.answers == found.targets)
    assert validated.log("valid_accuracy") == [pytest.approx(accuracy, abs=0.06)]
    texts = [row[0] if data == "MR" else row[:-1] for row in (SINGLES if data == "MR" else PAIRS)]
    read = load_predictor(checkpoint, device="cpu").predict(texts)
    probabilities = torch.from_numpy(found.outputs).softmax(1)
    for row, prediction in zip(probabilities.tolist(), read):
        assert prediction.probabilities == pytest.approx(dict(zip(found.label_names, row)), abs=1e-5)

    hub = RobertaIDPGModel.from_pretrained(checkpoint.parent, checkpoint.name)
    tokens = hub.encode(*([texts[3]] if data == "MR" else texts[3]))
    assert hub.predict(HEAD, tokens)[0].exp().tolist() == pytest.approx(probabilities[3].tolist(), abs=1e-5)
    with pytest.raises(InputError, match="shares no backbone with other tasks"):
        load_predictor([checkpoint, checkpoint], device="cpu")
    export(str(checkpoint), tmp_path / "shared", paths=True)
    assert load_predictor(tmp_path / "shared", device="cpu").predict(texts) == read


def test_a_prompt_starts_from_words_and_from_labels(place, tmp_path):
    """On data that says how its text was encoded: GPT-2 numbers printable bytes from '!' on, ids 0 to 3 are special."""
    table = torch.load(place / "model.pt", weights_only=True)["model"]["encoder.sentence_encoder.embed_tokens.weight"]

    def words(text):
        return table[[4 + ord(sign) - ord("!") for sign in text]]

    means = torch.stack([words(label).mean(0) for label in ("bad", "good")])
    usual = ["--backbone", place / "model.pt", "--method", "prompt-tuning", "--max-update", 1, "--lr", 0]
    for how, text, expected in (("text", "great", words("great")), ("class-labels", "bad|good", means)):
        train(place / "MR-bin", tmp_path / how, *usual, "--prompt-init", how, "--prompt-init-text", text)
        rows = saved(tmp_path / how)["method.table"][0]
        torch.testing.assert_close(rows[: len(expected)], expected, atol=1e-6, rtol=0)


@pytest.fixture(scope="module")
def trained(place):
    started(place, "MR", place / "trained", "--max-update", 2)
    return place / "trained" / "checkpoint_last.pt"


def test_training_on_another_order_keeps_the_words_of_the_classes(place, trained, tmp_path):
    """A run that starts from a checkpoint has its classes in the order of that, and their words too."""
    other = renamed(place / "MR-bin", tmp_path / "MR-bin", {name: name for name in "01"}, ["1", "0"])
    (other / "sha256.txt").unlink()
    expected = validate(place / "MR-bin", trained)
    start = ["--finetune-from-model", trained, "--lr", 0, "--max-epoch", 1]
    usual = ["--backbone", place / "model.pt", "--method", "prompt-tuning", "--predict-with", "mlm"]
    run = train(other, tmp_path / "run", *usual, *start)
    checkpoint = tmp_path / "run" / "checkpoint_last.pt"
    for said in (run, validate(other, checkpoint), train(other, tmp_path / "run", *usual, *start, "--max-epoch", 2)):
        for name in ("valid_loss", "valid_accuracy"):
            assert said.log(name)[-1:] == expected.log(name), name
    texts = [text for text, _ in SINGLES]
    found = [load_predictor(path, device="cpu").predict(texts) for path in (trained, checkpoint)]
    assert [p.probabilities for p in found[0]] == [p.probabilities for p in found[1]]


def test_the_whole_model_is_trained_with_its_lm_head(place, tmp_path):
    """All weights are in the checkpoint, so that it needs no other file."""
    backbone = shutil.copyfile(place / "model.pt", tmp_path / "model.pt")
    options = ["--backbone", backbone, "--max-update", 3, "--verbaliser-loss", "verbalisers", "--lr", "1e-3"]
    run = started(place, "RTE", tmp_path / "run", *options, method="fine-tuning")
    name, before = "encoder.lm_head.dense.weight", torch.load(backbone, weights_only=False)["model"]
    assert not torch.equal(saved(tmp_path / "run")[name], before[name])
    backbone.unlink()
    validated = validate(place / "RTE-bin", tmp_path / "run" / "checkpoint_last.pt")
    assert validated.log("valid_loss") == run.log("valid_loss")[-1:]


def test_m_of_x_is_of_what_is_read_and_may_be_cached(place, tmp_path):
    options = ["--max-update", 3, "--prompt-position", 1, "--dropout", 0]
    runs = [
        started(place, "RTE", tmp_path / name, *options, *cache, method="m-idpg-phm")
        for name, cache in (("plain", []), ("cached", ["--representation-cache", tmp_path / "cache"]))
    ]
    assert runs[1].log("valid_loss") == pytest.approx(runs[0].log("valid_loss"), abs=2e-3)
    names = {path.name for path in (tmp_path / "cache").glob("*.npy")}
    other = ["--representation-cache", tmp_path / "cache", "--template", "{1} ? <mask> , {0}"]
    started(place, "RTE", tmp_path / "other", *options, *other, method="m-idpg-phm")
    assert len({path.name for path in (tmp_path / "cache").glob("*.npy")} - names) == len(names)
