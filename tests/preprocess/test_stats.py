"""The table, the numbers and the plot, against plain computations on what fairseq reads."""

import json
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from fairseq.data.data_utils import load_indexed_dataset

from preprocess.data_folder import DataFolder
from preprocess.stats import describe_folder
from tests.folders import write_folder, write_indexed
from tests.preprocess.commands import run

KINDS = {"pairs": {"classes": 3}, "single": {"pairs": False}, "scores": {"regression": True}}
needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("stats")
    return {kind: write_folder(root / f"{kind}-bin", **options) for kind, options in KINDS.items()}


@pytest.fixture
def in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_numbers(folders):
    facts = describe_folder(DataFolder(folders["pairs"]))["splits"]["train"]
    datasets = [load_indexed_dataset(f"{folders['pairs']}/{part}/train", None, "mmap") for part in ("input0", "input1")]
    lengths = np.array([[len(row) - 1 for row in dataset] for dataset in datasets])
    assert facts["examples"] == lengths.shape[1] and facts["too_long"] == 0
    for found, plain in zip(facts["lengths"], lengths):
        expected = {"mean": plain.mean(), "percentile95": np.percentile(plain, 95), "max": plain.max()}
        assert found == pytest.approx(expected)
    assert facts["difference"] == pytest.approx((lengths[0] - lengths[1]).mean())


def test_pairs_longer_than_a_model(tmp_path):
    """<s> A </s> </s> B </s> has four tokens more than the sentences."""
    folder = write_folder(tmp_path / "x-bin", splits={"train": 2})
    for part in ("input0", "input1"):
        write_indexed(folder / part / "train", [[5] * 254 + [2], [5] * 255 + [2]])
    assert describe_folder(DataFolder(folder))["splits"]["train"]["too_long"] == 0.5


@needs_matplotlib
def test_command(folders, in_tmp, capsys):
    assert run(["stats", *map(str, folders.values()), "--json", "sub/numbers.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == "data set split examples in train labels sentence mean 95% max 1st - 2nd > 512".split()
    assert lines[1].startswith("pairs     train        24            0: 33.3%, 1: 33.3%, 2: 33.3%         1  ")
    scores = [float(line) for line in (folders["scores"] / "label" / "valid.label").read_text().split()]
    of_scores = next(line for line in lines if line.split()[:2] == ["scores", "valid"])
    assert f" {min(scores):g} to {max(scores):g} " in of_scores
    assert [line.split()[:2] for line in lines[5:7]] == [["single", "train"], ["single", "valid"]]
    assert lines[-2:] == ["numbers saved: sub/numbers.json", "plot saved: stats.png"]
    assert (in_tmp / "stats.png").read_bytes().startswith(PNG)
    numbers = json.loads((in_tmp / "sub" / "numbers.json").read_text())
    pairs = numbers["pairs"]
    assert {**describe_folder(DataFolder(folders["pairs"])), "in_others": pairs["in_others"]} == pairs
    assert sorted(path.name for path in in_tmp.iterdir()) == ["stats.png", "sub"]


def test_labels_are_no_commands_to_the_terminal(in_tmp, capsys):
    """Nor columns of megabytes."""
    folder = write_folder(in_tmp / "data")
    names = folder / "label" / "dict.txt"
    names.write_text(names.read_text().replace("0 ", "\x1b[2J ", 1).replace("1 ", f"{'x' * 5_000_000} ", 1))
    assert run(["stats", str(folder), "--no-plot"]) == 0
    printed = capsys.readouterr().out
    assert "\\x1b[2J: " in printed and "\x1b" not in printed and len(printed) < 200_000


def test_split_without_labels_and_empty_split(folders, tmp_path, capsys):
    folder = write_folder(tmp_path / "some-bin", splits={"train": 5, "valid": 5, "test": 5})
    for end in ("bin", "idx"):
        (folder / "label" / f"test.{end}").unlink()
    for part in ("input0", "input1", "label"):
        write_indexed(folder / part / "valid", [])
    assert run(["stats", str(folder), "--no-plot"]) == 0
    lines = {line.split()[1]: line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("some")}
    assert lines["valid"] == ["some", "valid", "0", "0", "-", "1", "-", "-", "-"]
    assert lines["test"][:3] == ["some", "test", "5"] and lines["test"][4:6] == ["-", "1"]


def test_examples_that_are_trained_on_are_counted(tmp_path):
    """Both sentences, in their order and token by token; twice in a split is twice, and labels are not looked at.

    fairseq-train reads train1 with train.
    """
    folder, known = write_folder(tmp_path / "known-bin"), ([5, 6, 2], [7, 2])
    splits = {
        "train": [known],
        "train1": [([8, 2], [9, 2])],
        "valid": [known, known, known[::-1], ([5, 2], [6, 7, 2]), ([5, 6, 2], [8, 2]), ([8, 2], [9, 2])],
    }
    for split, pairs in splits.items():
        for part, sentences in zip(("input0", "input1"), zip(*pairs)):
            write_indexed(folder / part / split, sentences)
        write_indexed(folder / "label" / split, [[4, 2]] * len(pairs))
    assert describe_folder(DataFolder(folder))["in_train"] == {"valid": 3}
    for part in ("input0", "input1", "label"):
        for end in ("bin", "idx"):
            (folder / part / f"train.{end}").unlink()
    assert describe_folder(DataFolder(folder))["in_train"] == {}


def test_examples_that_stand_in_another_folder_are_counted(tmp_path, capsys):
    """In any of its splits, twice in a split is twice; not those of another vocabulary, nor one sentence of a pair."""
    folders = {name: write_folder(tmp_path / f"{name}-bin", pairs=name == "pairs") for name in ("a", "b", "c", "pairs")}
    a = ([[5, 6, 2], [7, 2]], [[5, 6, 2], [5, 6, 2], [8, 2], [9, 2]])
    for name, folder in folders.items():
        for split, sentences in zip(("train", "valid"), ([[9, 2], [6, 5, 2]], [[5, 6, 2]]) if name == "b" else a):
            for part in ("input0", "input1") if name == "pairs" else ("input0",):
                write_indexed(folder / part / split, sentences)
            write_indexed(folder / "label" / split, [[4, 2]] * len(sentences))
    dictionary = folders["c"] / "input0" / "dict.txt"
    dictionary.write_text(dictionary.read_text() + "more 1\n")
    assert run(["stats", *map(str, folders.values()), "--no-plot", "--json", str(tmp_path / "numbers.json")]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "stand in" in line]
    assert said == [
        "a train: 1 of 2 stand in b too",
        "a valid: 3 of 4 stand in b too",
        "b train: 1 of 2 stand in a too",
        "b valid: 1 of 1 stand in a too",
    ]
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert (
        numbers["b"]["in_others"] == {"train": {"a": 1}, "valid": {"a": 1}} and not numbers["c"]["in_others"]["train"]
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nowhere"], "nowhere"),
        (["x-bin", "--plot", "y.png", "--json", "x-bin/../y.png"], "--plot y.png and --json x-bin/../y.png"),
        (["x-bin", "--no-plot", "--json", "x-bin/new.json"], "--json x-bin/new.json"),
    ],
)
def test_refused(arguments, named, in_tmp, capsys):
    write_folder(in_tmp / "x-bin")
    before = sorted(in_tmp.rglob("*"))
    assert run(["stats", *arguments]) == 1
    assert named in capsys.readouterr().err and sorted(in_tmp.rglob("*")) == before


def test_missing_matplotlib_is_said_after_the_table(folders, in_tmp, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run(["stats", str(folders["pairs"])]) == 1
    printed = capsys.readouterr()
    assert "pairs     train" in printed.out and "--no-plot" in printed.err
    assert list(in_tmp.iterdir()) == []
