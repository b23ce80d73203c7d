"""Every preset through the command line: trained, resumed, saved small, validated, predicted, counted."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from fairseq_idpg.inference.folder import load_on_folder, predict_split
from fairseq_idpg.methods.registry import PRESETS
from tests.folders import same_tensors, train, validate
from tests.helpers import ALWAYS_SAVED
from tests.inference.saved import FROM_SOURCES, source_options
from tests.methods.test_registry import FOLDED, TRAINS_BACKBONE, build, trained_names
from tests.representations.test_word_vectors import write_vectors

ELSEWHERE = {"m-idpg-phm"}  # the default: tests/cli
JOINED = ["id-spam+adapter", "lora+id-spam", "bitfit+prompt-tuning", "lora+dept"]
FEW_ROWS = ["--prompt-length", 4]
WORDS_LR = ["--optimizer", "grouped_adam", "--words-lr", 3]
OPTIONS = {  # what is too large for the tiny model, and options worth a run
    **dict.fromkeys(("prompt-tuning-100", "prompt-tuning-134", *FROM_SOURCES), FEW_ROWS),
    "m-idpg-phm-glove": ["--generator-hidden-size", 8],
    "lora": ["--lora-dropout", 0.1],
    "adapter-drop, n drawn": ["--adapter-drop-random", "--adapter-drop", 0],
    "adapter-parallel": ["--adapter-place", "both"],
    "prefix-tuning": ["--prefix-dropout", 0.1],
    "dept": [*FEW_ROWS, "--words-length", 6, *WORDS_LR],
    "lora+dept": [*FEW_ROWS, *WORDS_LR],
    "ept": [*FEW_ROWS, "--words-rank", 3, "--ept-hidden-size", 8, *WORDS_LR],
    "smop": ["--smop-balance", 0.01, "--criterion", "sentence_prediction_idpg"],
    "adamix": ["--criterion", "sentence_prediction_idpg"],
    "dpt": [*FEW_ROWS, "--reparameterization-hidden-size", 2, "--prompt-init", "uniform"],
}
RUNS = [*sorted(PRESETS.keys() - ELSEWHERE), *JOINED, "adapter-drop, n drawn"]


@pytest.fixture(scope="module")
def data(pairs, tmp_path_factory):
    """Pairs with word vectors."""
    folder = shutil.copytree(pairs, tmp_path_factory.mktemp("presets") / "pairs")
    write_vectors(folder)
    return folder


def usual(case):
    """(preset, options, what to leave out): PHM's factor is for PHM."""
    name = case.split(",")[0]
    left_out = "" if "phm" in name or name in ("prompt-tuning", "p-tuning-v2", "head-only") else "--phm-n"
    return name, ["--method", name, *OPTIONS.get(case, [])], left_out


def of_each_part(name, names_of):
    """Names of a preset's tensors, or of those of several joined by +."""
    parts = name.split("+")
    if len(parts) == 1:
        return names_of(name)
    return {own.replace("method.", f"method.parts.{i}.", 1) for i, part in enumerate(parts) for own in names_of(part)}


def trained(name):
    return trained_names(name, build(name))


def folded(name):
    return {f"method.{own}" for own in FOLDED.get(name, ())}


def saved(folder, at):
    return torch.load(folder / f"checkpoint_{at}.pt", weights_only=True)["model"]


@pytest.mark.parametrize("case", RUNS)
def test_run(case, data, backbone, tmp_path):
    name, options, left_out = usual(case)
    options += ["--backbone", backbone, "--max-epoch", 1]
    options += source_options(name, tmp_path, data, backbone, *FEW_ROWS)
    whole = train(data, tmp_path / "whole", *options, "--save-interval-updates", 2, without=left_out)
    tensors = saved(tmp_path / "whole", "last")

    own = of_each_part(name, trained)
    count = sum(tensors[each].numel() for each in own)
    assert f"method {name}: {count:,} trainable of " in whole.output
    others = set(tensors) - own - of_each_part(name, folded) - ALWAYS_SAVED
    assert own <= set(tensors) and (not others or name in TRAINS_BACKBONE)

    middle, last = (tmp_path / "whole" / f"checkpoint_{at}.pt" for at in ("1_2", "last"))
    with ThreadPoolExecutor() as both:
        resuming = both.submit(train, data, tmp_path / "rest", *options, "--restore-file", middle, without=left_out)
        validated = both.submit(validate, data, last).result()
        resumed = resuming.result()
    assert resumed.log("train_loss") == whole.log("train_loss")
    assert same_tensors(saved(tmp_path / "rest", "last"), tensors)
    assert validated.log("valid_loss") == pytest.approx(whole.log("valid_loss")[-1:], abs=1e-3)

    model, task = load_on_folder(str(last), str(data), cpu=True)
    merged = model.method is not None and model.method.merged
    assert merged == ("lora" in name)
    predicted = predict_split(model, task, "valid")
    probabilities = torch.from_numpy(predicted.outputs).log_softmax(1).numpy()
    loss = -np.mean([row[int(target)] for row, target in zip(probabilities, predicted.targets)]) / np.log(2)
    assert loss == pytest.approx(validated.log("valid_loss")[0], abs=2e-3)
