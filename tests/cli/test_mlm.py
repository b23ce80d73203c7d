"""--predict-with mlm through the command line: train, resume, validate, predict, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fairseq_idpg.inference import load as load_predictor
from fairseq_idpg.predict import load, predict
from tests.folders import same_tensors, train, validate
from tests.helpers import ALWAYS_SAVED
from tests.phrases import PAIRS, SINGLES, write_language_model, write_texts


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlm")
    write_texts(folder, "MR", SINGLES)
    write_texts(folder, "RTE", PAIRS)
    write_language_model(folder)
    return folder


def started(place, data, save_dir, *options, method="prompt-tuning", **more):
    usual = ["--backbone", place / "model.pt", "--method", method, "--predict-with", "mlm", "--lr", "1e-2"]
    return train(
        place / f"{data}-bin", save_dir, *usual, *options, without=LPT if method == "lpt-naive" else "", **more
    )


LPT = "--phm-n"  # the usual option that it does not have


def saved(save_dir):
    return torch.load(save_dir / "checkpoint_last.pt", weights_only=True)


@pytest.mark.parametrize("method", ["prompt-tuning", "lpt-naive"])
@pytest.mark.parametrize("data", ["MR", "RTE"])
def test_a_run(place, tmp_path, data, method):
    whole = started(place, data, tmp_path / "whole", "--max-epoch", 4, method=method)
    assert "head 0," in whole.output
    state = saved(tmp_path / "whole")
    own = {"prompt-tuning": "method.table", "lpt-naive": "method.table"}[method]
    assert set(state["model"]) == {own, *ALWAYS_SAVED} and state["model"][own].numel() == 5 * 32
    options = state["cfg"]["model"]
    words = "terrible,great" if data == "MR" else "Yes,No"
    assert (options["predict_with"], options["verbalisers"]) == ("mlm", words)
    assert options["template"] == ("{0} . It was <mask> ." if data == "MR" else "{0} ? <mask> , {1}")

    started(place, data, tmp_path / "twice", "--max-epoch", 2, method=method)
    resumed = started(place, data, tmp_path / "twice", "--max-epoch", 4, method=method)
    assert resumed.log("valid_loss") == whole.log("valid_loss")[2:]
    assert same_tensors(saved(tmp_path / "twice")["model"], state["model"])

    checkpoint, folder = tmp_path / "whole" / "checkpoint_last.pt", place / f"{data}-bin"
    validated = validate(folder, checkpoint)
    assert validated.log("valid_loss") == whole.log("valid_loss")[-1:]
    assert validated.log("valid_accuracy") == whole.log("valid_accuracy")[-1:]
    found = predict(*load(str(checkpoint), str(folder), cpu=True), "valid")
    accuracy = 100 * np.mean(found.answers == found.targets)
    assert validated.log("valid_accuracy") == [pytest.approx(accuracy, abs=0.06)]
    assert found.label_names == (["0", "1"] if data == "MR" else ["entailment", "not_entailment"])

    texts = [row[0] if data == "MR" else row[:-1] for row in (SINGLES if data == "MR" else PAIRS)]
    read = load_predictor(checkpoint, bpe=place / "vocab").predict(texts)
    probabilities = torch.from_numpy(found.outputs).softmax(1)
    for row, prediction in zip(probabilities.tolist(), read):
        assert prediction.probabilities == pytest.approx(dict(zip(found.label_names, row)), abs=1e-5)
