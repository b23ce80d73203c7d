"""Presets of the other papers through the command line: trained, resumed, saved, validated, predicted."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fairseq_idpg.predict import load, predict
from tests.folders import same_tensors, train, validate
from tests.methods.adapters.presets import HEAD
from tests.methods.test_registry import build, saved_names

WORDS_LR = ["--optimizer", "grouped_adam", "--words-lr", 3]
PRESETS = {
    "lora": ["--lora-dropout", 0.1],
    "lora-all": [],
    "bitfit": [],
    "adapter-drop": ["--adapter-drop-random", "--adapter-drop", 0],
    "adapter-parallel": ["--adapter-place", "both"],
    "adapter-scaled-parallel": [],
    "adapter-multihead-parallel": [],
    "prefix-tuning": ["--prefix-dropout", 0.1],
    "mam": [],
    "dept": ["--prompt-length", 3, "--words-length", 6, *WORDS_LR],
    "ept": ["--prompt-length", 4, "--words-rank", 3, "--ept-hidden-size", 8, *WORDS_LR],
    "smop": ["--prompt-length", 3],
    "dpt": ["--prompt-length", 4, "--reparameterization-hidden-size", 2],
}


@pytest.mark.parametrize("name", PRESETS)
def test_trained_resumed_saved_validated_and_predicted(name, pairs, backbone, tmp_path):
    options = ["--backbone", backbone, "--method", name, *PRESETS[name], "--max-epoch", 2]
    whole = train(pairs, tmp_path / "whole", *options, "--save-interval-updates", 2, without="--phm-n")
    last, middle = (tmp_path / "whole" / f"checkpoint_{at}.pt" for at in ("last", "1_2"))
    saved = torch.load(last, weights_only=True)["model"]
    assert set(saved) == saved_names(name, build(name)) and set(saved) >= HEAD

    resumed = train(pairs, tmp_path / "rest", *options, "--restore-file", middle, without="--phm-n")
    assert resumed.log("train_loss")[-1:] == whole.log("train_loss")[-1:]
    assert same_tensors(torch.load(tmp_path / "rest" / "checkpoint_last.pt", weights_only=True)["model"], saved)

    validated = validate(pairs, last).log("valid_loss")
    assert validated == pytest.approx(whole.log("valid_loss")[-1:], abs=1e-3)
    model, task = load(str(last), str(pairs), cpu=True)
    assert model.method.merged == ("lora" in name)
    predicted = predict(model, task, "valid")
    probabilities = torch.from_numpy(predicted.outputs).log_softmax(1).numpy()
    loss = -np.mean([row[int(target)] for row, target in zip(probabilities, predicted.targets)]) / np.log(2)
    assert loss == pytest.approx(validated[0], abs=2e-3)
