"""``fairseq_idpg.train``: the command's weights, from examples of Python, in a process that stays as it was."""

import fcntl
import logging
import random
import signal
import sys
from types import SimpleNamespace

import fairseq_cli.train
import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.logging import metrics
from hydra.core.global_hydra import GlobalHydra

import fairseq_idpg
from fairseq_idpg.errors import InputError
from fairseq_idpg.training.lock import NAME
from preprocess.checksums import sha256
from tests.checkpoints import hf_folders
from tests.folders import same_tensors, validate
from tests.in_process import call
from tests.inference.conftest import texts, vocab_and_backbone
from tests.preprocess.commands import make_folder

SMALL = {"phm_n": 4, "prompt_length": 3, "dropout": 0, "device": "cpu", "progress": False}


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    """Folder of a backbone, with the files of its encoder."""
    place = vocab_and_backbone(tmp_path_factory.mktemp("python"))
    for file in (place / "vocab").iterdir():
        file.rename(place / "backbone" / file.name)
    return place / "backbone"


def singles(count: int, seed: int = 0) -> list[tuple[str, str]]:
    return [(text, "good" if "red" in text else "bad") for (text,) in texts(count, 1, seed)]


@pytest.fixture(scope="module")
def saved(backbone, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    return folder, fairseq_idpg.train(singles(60), backbone, epochs=2, lr=0.02, save_dir=folder, **SMALL)


def test_two_classes(saved, backbone, capfd):
    """It evaluates; fairseq-validate reads what it leaves; the same call goes on where it stopped."""
    folder, model = saved
    questions, answers = zip(*singles(40, seed=1))
    scores = model.evaluate(questions, answers)
    assert scores.keys() == {"accuracy", "macro_f1"}
    said = [answer.label for answer in model.predict(questions)]
    assert scores["accuracy"] == np.mean([one == other for one, other in zip(said, answers)])
    validate(folder / "data-bin", folder / "checkpoint_best.pt")
    fairseq_idpg.train(singles(60), backbone, epochs=3, lr=0.02, save_dir=folder, **{**SMALL, "progress": True})
    epochs = torch.load(folder / "checkpoint_last.pt", weights_only=False)["extra_state"]["train_iterator"]["epoch"]
    assert epochs == 4 and "valid_accuracy" in capfd.readouterr().err
    with pytest.raises(InputError, match="`save_dir`"):
        fairseq_idpg.train(singles(50), backbone, epochs=3, lr=0.02, save_dir=folder, **SMALL)


def test_the_commands_weights_and_data(saved, backbone, tmp_path):
    """``python -m preprocess --from-tsv`` and ``fairseq-train`` make the same of the same examples."""
    folder, _ = saved
    held_out = singles(20, seed=2)
    data = make_folder(tmp_path, "data", {"train": singles(60), "valid": held_out}, "--vocab", backbone)
    command = [data, "--task", "sentence_prediction_idpg", "--arch", "roberta_idpg", "--cpu"]
    command += ["--backbone", backbone / "model.pt", "--method", "m-idpg-phm", "--phm-n", 4, "--prompt-length", 3]
    command += ["--dropout", 0.1, "--lr", 0.02, "--max-epoch", 2, "--batch-size", 8, "--save-dir", tmp_path / "command"]
    status, output = call("train", [str(word) for word in command])
    assert status == 0, output
    more = {**SMALL, "dropout": 0.1, "validation": held_out, "save_dir": tmp_path / "python"}
    fairseq_idpg.train(singles(60), backbone, epochs=2, lr=0.02, batch_size=8, **more)
    files = (tmp_path / way / "checkpoint_last.pt" for way in ("command", "python"))
    theirs, ours = (torch.load(file, weights_only=False) for file in files)
    assert same_tensors(theirs["model"], ours["model"])
    for file in data.glob("[il]*/*"):
        other = tmp_path / "python" / file.relative_to(tmp_path)
        assert sha256(file) == sha256(other), file
    assert len(list((folder / "data-bin").glob("[il]*/*"))) == len(list(data.glob("[il]*/*")))


def state_of_the_process(folder) -> list:
    draws = [random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()]
    loggers = [logging.getLogger(name) for name in (None, "fairseq.logging.progress_bar", "fairseq_cli.train")]
    logging_now = [(each.handlers[:], each.filters[:], each.level, each.propagate) for each in loggers]
    signals = [signal.getsignal(number) for number in signal.valid_signals()]
    functions = [dict(vars(each)) for each in (checkpoint_utils.save_checkpoint, fairseq_cli.train.should_stop_early)]
    hydra = GlobalHydra.instance()
    counted = {name: id(value) for name, value in metrics._aggregators.items()}
    return [draws, logging_now, signals, functions, sys.argv[:], sys.excepthook, id(hydra), hydra.hydra, counted]


def test_the_process_stays_as_it_was(backbone, tmp_path, monkeypatch):
    """After a training, and after one that fails."""
    monkeypatch.setattr(checkpoint_utils.save_checkpoint, "best", 0.25, raising=False)
    monkeypatch.setattr(fairseq_cli.train.should_stop_early, "num_runs", 7, raising=False)
    monkeypatch.setattr(GlobalHydra.instance(), "hydra", SimpleNamespace())
    before = state_of_the_process(tmp_path)
    train = {"epochs": 1, "patience": 1, "save_dir": tmp_path, **SMALL}
    fairseq_idpg.train(singles(40), backbone, **train)
    for slip in ("prompt_length", "promt_length", "phm_n"):
        with pytest.raises(InputError, match=slip.replace("_", ".")):
            fairseq_idpg.train(singles(40), backbone, **{**train, slip: "-3"})
    assert state_of_the_process(tmp_path) == before
    with open(tmp_path / NAME) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Frame(dict):
    """A table as pandas has it: columns of numpy's values."""

    @property
    def columns(self) -> list[str]:
        return list(self)


def test_a_table(backbone):
    """Of pairs, in a folder that goes with the model; numbers of numpy are classes."""
    first, second = zip(*texts(40, 2, 0))
    labels = np.array([int("red" in text) for text in first])
    frame = Frame(sentence1=np.array(first), sentence2=np.array(second), label=labels)
    model = fairseq_idpg.train(frame, backbone, epochs=1, **SMALL)
    assert set(model.labels) == {"0", "1"}
    assert model.evaluate([*zip(first, second)], labels).keys() == {"accuracy", "macro_f1"}


def test_scores(backbone):
    """They need to be asked for, and are answered on their own scale."""
    examples = [(text, 5.0 * ("red" in text) + number / 100) for number, (text,) in enumerate(texts(60, 1, 0))]
    with pytest.raises(InputError, match="regression"):
        fairseq_idpg.train(examples, backbone, **SMALL)
    model = fairseq_idpg.train(examples, backbone, regression=5, epochs=1, lr=0.02, **SMALL)
    found = model.evaluate(*zip(*examples))
    assert found.keys() == {"pearson", "spearman"} and -1 <= found["pearson"] <= 1


def test_a_folder_of_hugging_face(tmp_path, monkeypatch):
    """It is converted once, into the cache."""
    hf_folders.build(tmp_path / "hf", "bert")
    monkeypatch.setenv("FAIRSEQ_IDPG_CACHE", str(tmp_path / "cache"))
    examples = [("the cat", "a"), ("a dog", "b"), ("a cat", "a"), ("the dog", "b")] * 5
    # a name on the hub is fetched to a folder
    monkeypatch.setattr("fairseq_idpg.in_python.call_hub", lambda what, function, name, **_: tmp_path / name[3:])
    for source in (tmp_path / "hf", "me/hf"):
        fairseq_idpg.train(examples, source, epochs=1, **{**SMALL, "method": "prompt-tuning", "phm_n": None})
    assert len(list((tmp_path / "cache" / "converted").iterdir())) == 1


ROWS = [[("red", "good"), ("blue",)], [("red", None)], Frame(words=["red"], label=["good"])]
HELD_OUT = [1.5, [("red", "good", "bad")], [("red", "unknown")]]
SLIPS = {"epochs": [0], "epoch": [3], "lr": ["fast"], "validation": HELD_OUT, "examples": ROWS}
SLIPS |= {"backbone": ["nowhere", "models--me--x"], "vocab": ["nowhere"], "max_epoch": [3], "max_valid_steps": ["many"]}


@pytest.mark.parametrize(("argument", "value"), [(name, value) for name in SLIPS for value in SLIPS[name]])
def test_slips(argument, value, backbone):
    given = {"examples": singles(40), "backbone": backbone, **SMALL, argument: value}
    with pytest.raises(InputError, match="mean epochs" if argument == "epoch" else f"`{argument}`") as told:
        fairseq_idpg.train(**given)
    assert " --" not in str(told.value)  # options of commands are not its arguments
    assert argument != "backbone" or value in str(told.value)  # and folders of the hub's cache no options


def test_weights_of_classes(backbone):
    """The loss of training counts a class more; one that is not there is told."""
    options = {**SMALL, "epochs": 2, "lr": 0.02, "seed": 1}
    one, other = (
        fairseq_idpg.train(singles(60), backbone, class_weights={"bad": weight}, **options).predict(["red", "a dog"])
        for weight in (1, 50)
    )
    assert all(b.probabilities["bad"] > a.probabilities["bad"] for a, b in zip(one, other))
    plain = fairseq_idpg.train(singles(60), backbone, **options).predict(["red", "a dog"])
    assert [a.probability for a in one] == pytest.approx([b.probability for b in plain], abs=1e-6)
    for weights, said in (({"worst": 2}, "worst"), ({"bad": -1}, "`class_weights`")):
        with pytest.raises(InputError, match=said):
            fairseq_idpg.train(singles(60), backbone, class_weights=weights, **options)
