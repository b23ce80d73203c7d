"""Methods with something of their own in a run, through the command line: trained, resumed, validated, predicted.

What all methods promise is tried without processes, in ``test_contract.py``.
"""

import shutil

import numpy as np
import pytest
import torch

from fairseq_idpg.inference.folder import load_on_folder, predict_split
from tests.folders import same_tensors, saved, train, validate
from tests.inference.saved import source_options
from tests.representations.test_word_vectors import write_vectors

FEW_ROWS = ["--prompt-length", 4]
OURS = ["--criterion", "sentence_prediction_idpg"]
RUNS = {
    "m-idpg-phm-glove": ["--generator-hidden-size", 8],  # vectors of the data
    "fine-tuning": [],
    "bitfit+prompt-tuning": [],  # weights of the backbone
    "adapter-drop": ["--adapter-drop-random", "--adapter-drop", 0],  # drawn for each batch
    "adamix": OURS,  # two passes
    "smop": ["--smop-balance", 0.01, *OURS],  # a second loss
    "attempt": FEW_ROWS,  # other tasks' prompts
    "prefix-tuning": ["--prefix-dropout", 0.1],  # folded
    "lora+dept": [*FEW_ROWS, "--optimizer", "grouped_adam", "--words-lr", 3],  # a rate of its own; merged to predict
    "ept": [*FEW_ROWS, "--words-rank", 3, "--ept-hidden-size", 8],  # an SVD of words
    "id-spam+adapter": [],  # late rows
}


@pytest.fixture(scope="module")
def data(pairs, tmp_path_factory):
    folder = shutil.copytree(pairs, tmp_path_factory.mktemp("presets") / "pairs")
    write_vectors(folder)
    return folder


@pytest.mark.parametrize("name", RUNS)
def test_run(name, data, backbone, tmp_path):
    left_out = "" if "phm" in name else "--phm-n"
    options = ["--method", name, *RUNS[name], "--backbone", backbone, "--max-epoch", 1]
    options += source_options(name, tmp_path, data, backbone, *FEW_ROWS)
    whole = train(data, tmp_path / "whole", *options, "--save-interval-updates", 2, without=left_out)

    middle, last = (tmp_path / "whole" / f"checkpoint_{at}.pt" for at in ("1_2", "last"))
    resumed = train(data, tmp_path / "rest", *options, "--restore-file", middle, without=left_out)
    assert resumed.log("train_loss") == whole.log("train_loss")
    assert same_tensors(saved(tmp_path / "rest"), saved(tmp_path / "whole"))

    for source in tmp_path.glob("source*.pt"):
        source.unlink()  # nobody needs it any more
    validated = validate(data, last)
    assert validated.log("valid_loss") == pytest.approx(whole.log("valid_loss")[-1:], abs=1e-3)
    model, task = load_on_folder(str(last), str(data), cpu=True)
    assert (model.method is not None and model.method.merged) == ("lora" in name)
    predicted = predict_split(model, task, "valid")
    probabilities = torch.from_numpy(predicted.outputs).log_softmax(1).numpy()
    loss = -np.mean([row[int(target)] for row, target in zip(probabilities, predicted.targets)]) / np.log(2)
    assert loss == pytest.approx(validated.log("valid_loss")[0], abs=2e-3)
