"""Own data of the Hugging Face hub: --from-hub."""

import sys
import types

import pytest

from tests.preprocess.commands import install_hub


class FakeLabels:
    names = ["neg", "pos"]


class FakeDataset(list):
    column_names = ["text", "label"]
    features = {"label": FakeLabels()}
    _fingerprint = "abc"


def test_hub(commands, monkeypatch):
    """The interface of `datasets` that is used; a test with the package itself follows where it is installed."""
    splits = {
        "train": FakeDataset([{"text": "good", "label": 1}, {"text": "bad", "label": 0}]),
        "test": FakeDataset([{"text": "unknown", "label": -1}]),
    }
    install_hub(monkeypatch, lambda path, config, split: {("d", "c"): splits}[path, config][split])
    data = commands.ok("x", "--from-hub", "d:c", "--splits", "train=train", "test=test", "--text-columns", "text")
    assert commands.texts(data, "train") == ["good", "bad"] and commands.labels(data, "train") == ["pos", "neg"]
    assert commands.texts(data, "test") == ["unknown"] and not data.has_labels("test")
    monkeypatch.setitem(sys.modules, "datasets", None)
    shown = commands.run("y", "--from-hub", "d", "--text-columns", "text"), commands.capsys.readouterr().err
    assert shown == (1, "preprocess: --from-hub needs the package datasets: pip install datasets\n")


@pytest.mark.parametrize("hidden", [-1, -1.0])
def test_scores_that_the_hub_hides_are_none(commands, monkeypatch, hidden):
    """glue/stsb has -1.0 for every score of its test set."""

    class Scores(FakeDataset):
        features = {"label": object()}

    rows = [("a", 2.5), ("b", -1.0)]
    splits = {"train": Scores({"text": text, "label": score} for text, score in rows)}
    splits["test"] = Scores({"text": text, "label": hidden} for text in "ab")
    splits["test1"] = Scores({"text": text, "label": score} for text, score in rows)
    install_hub(monkeypatch, lambda path, config, split: splits[split])
    chosen = ["--splits", *(f"{name}={name}" for name in splits), "--text-columns", "text", "--regression", "5"]
    data = commands.ok("x", "--from-hub", "glue:stsb", *chosen)
    assert data.targets("train") == data.targets("test1") == ["0.5", "-0.2"] and not data.has_labels("test")


@pytest.mark.parametrize("number", [-1, -2])
def test_no_class_of_the_hub_is_counted_from_the_end(commands, monkeypatch, number):
    class Classes(FakeDataset):
        features = {"label": types.SimpleNamespace(names=["bad", "good"])}

    splits = {"train": Classes([{"text": "a", "label": 0}, {"text": "b", "label": 1}])}
    splits["test"] = Classes([{"text": "a", "label": number}, {"text": "b", "label": number}])
    install_hub(monkeypatch, lambda path, config, split: splits[split])
    data = commands.ok("x", "--from-hub", "x", "--splits", "train=train", "test=test", "--text-columns", "text")
    assert not data.has_labels("test")


def test_hub_with_the_package(commands):
    pytest.importorskip("datasets")
    folder = commands.raw / "data"
    commands.write("data/train.csv", "text,label\ngood,1\nbad,0\n")
    data = commands.ok("x", "--from-hub", folder, "--splits", "train=train", "--text-columns", "text")
    assert commands.texts(data, "train") == ["good", "bad"] and data.label_names == ["0", "1"]
