"""The table, the numbers and the plot, against plain computations on what fairseq reads."""

import json
import os
from importlib.util import find_spec

import numpy as np
import pytest

from preprocess.data_folder import DataFolder
from preprocess.stats import describe_folder
from tests.folders import write_folder, write_indexed
from tests.preprocess.commands import make_folder, run


def test_numbers(tmp_path):
    """<s> A </s> </s> B </s> has four tokens more than the sentences."""
    folder = write_folder(tmp_path / "x-bin", splits={"train": 4})
    lengths = np.array([[254, 255, 3, 9], [254, 254, 8, 1]])
    for part, counts in zip(("input0", "input1"), lengths.tolist()):
        write_indexed(folder / part / "train", [[5] * count + [2] for count in counts])
    facts = describe_folder(DataFolder(folder))["splits"]["train"]
    assert (facts["examples"], facts["too_long"], facts["labels"]) == (4, 0.25, {"classes": {"0": 0.5, "1": 0.5}})
    for found, plain in zip(facts["lengths"], lengths):
        expected = {"mean": plain.mean(), "percentile95": np.percentile(plain, 95), "max": plain.max()}
        assert found == pytest.approx(expected)
    assert facts["difference"] == pytest.approx((lengths[0] - lengths[1]).mean())


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kinds = {"pairs": {"classes": 3}, "single": {"pairs": False}, "scores": {"regression": True}}
    folders = {kind: write_folder(tmp_path / "data" / f"{kind}-bin", **options) for kind, options in kinds.items()}
    (folders["single"] / "label" / "valid.idx").unlink()
    assert run(["stats", *folders.values()]) == 0 and os.listdir(tmp_path) == ["data"]
    capsys.readouterr()
    assert run(["stats", *folders.values(), "--plot", "stats.png", "--json", "sub/numbers.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("pairs     train        24            0: 33.3%, 1: 33.3%, 2: 33.3%         1  ")
    scores = [float(line) for line in (folders["scores"] / "label" / "valid.label").read_text().split()]
    assert any(line.startswith("scores ") and f" {min(scores):g} to {max(scores):g} " in line for line in lines)
    assert ["single", "valid", "13", "0", "-", "1"] in [line.split()[:6] for line in lines]
    assert (tmp_path / "stats.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pairs = json.loads((tmp_path / "sub" / "numbers.json").read_text())["pairs"]
    assert {**describe_folder(DataFolder(folders["pairs"])), "in_others": pairs["in_others"]} == pairs
    inside = folders["pairs"] / "new.json"
    # one file for two results; a folder that is read
    for options in (["--plot", "stats.png", "--json", "stats.png"], ["--json", str(inside)]):
        assert run(["stats", folders["pairs"], *options]) == 1 and not inside.exists()
        assert f"--json {options[-1]} " in capsys.readouterr().err


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


def test_examples_that_stand_in_another_folder_are_counted(tmp_path, capsys):
    """In any of its splits, twice in a split is twice; not those of another vocabulary."""
    folders = {name: write_folder(tmp_path / f"{name}-bin", pairs=False) for name in ("a", "b", "c")}
    texts = dict.fromkeys(folders, {"train": [[5, 6, 2], [7, 2]], "valid": [[5, 6, 2], [5, 6, 2], [8, 2], [9, 2]]})
    texts["b"] = {"train": [[9, 2], [6, 5, 2]], "valid": [[5, 6, 2]]}
    for name, folder in folders.items():
        for split, sentences in texts[name].items():
            for part in DataFolder(folder).inputs:
                write_indexed(folder / part / split, sentences)
            write_indexed(folder / "label" / split, [[4, 2]] * len(sentences))
    dictionary = folders["c"] / "input0" / "dict.txt"
    dictionary.write_text(dictionary.read_text() + "more 1\n")
    assert run(["stats", *folders.values(), "--no-plot"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "stand in" in line] == [
        "a train: 1 of 2 stand in b too",
        "a valid: 3 of 4 stand in b too",
        "b train: 1 of 2 stand in a too",
        "b valid: 1 of 1 stand in a too",
    ]


def test_texts_are_compared_by_their_letters_and_digits(tmp_path, capsys):
    """Quotation marks, hyphens and case differ between files of one source."""
    (tmp_path / "bert").mkdir()
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *'a film well made dull " - .'.split()]
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    x = [("a well-made film", "dull", "1"), ("dull film", "dull", "0")]
    y = [('"a well made film ."', "dull .", "1"), ("a film", "dull film", "0")]
    for name, train, valid in (("x", x, y), ("y", y, x)):
        make_folder(tmp_path, name, {"train": train, "valid": valid}, "--bpe", "bert", "--vocab", tmp_path / "bert")
    capsys.readouterr()
    assert run(["stats", tmp_path / "x-bin", tmp_path / "y-bin"]) == 0
    said = capsys.readouterr().out
    assert "x train: 2 of 2 stand in y too" in said and "x valid: 2 of 2 share a sentence with train" in said
    assert describe_folder(DataFolder(tmp_path / "x-bin"))["in_train"] == {"valid": 1}
    for record in ("preprocess.json", "sha256.txt"):  # as in a folder of fairseq-preprocess
        (tmp_path / "y-bin" / record).unlink()
    assert run(["stats", tmp_path / "x-bin", tmp_path / "y-bin"]) == 0
    assert capsys.readouterr().out == said
    # another model's vocabulary would read the ids as other text, so these are compared themselves
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(vocabulary[:-6]) + "\n")
    assert describe_folder(DataFolder(tmp_path / "x-bin"))["in_train"] == {"valid": 0}
