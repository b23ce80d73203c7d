"""python -m fairseq_idpg.encode fills what fairseq-train then finds."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

from fairseq_idpg.encode import main
from fairseq_idpg.representations import fill as representation_cache
from fairseq_idpg.representations.kinds import sentence_representation
from tests.folders import train, write_backbone, write_folder


def encode(data, backbone, cache, *options):
    usual = ["--backbone", backbone, "--representation-cache", cache, "--max-positions", 64, "--cpu"]
    main([str(part) for part in (data, *usual, *options)])


def test_training_finds_the_rows(pairs, backbone, tmp_path, capsys):
    encode(pairs, backbone, tmp_path / "cache")
    shown = capsys.readouterr().out
    assert "train: 24 rows written" in shown and "valid: 13 rows written" in shown
    options = ["--backbone", backbone, "--max-epoch", 1, "--representation-cache", tmp_path / "cache"]
    assert "M(x) of" not in train(pairs, tmp_path / "run", *options).output
    encode(pairs, backbone, tmp_path / "cache")
    assert "train: 24 rows were there" in capsys.readouterr().out


def test_a_folder_without_labels_or_with_one_class(backbone, tmp_path, capsys):
    """There the first would be left out without a word, and the second has no option for its number of classes."""
    data = write_folder(tmp_path / "data", splits={"test": 5})
    for file in data.glob("label/test.*"):
        file.unlink()
    with pytest.raises(SystemExit, match=f"{data} has no split with labels: name what to encode, --splits test$"):
        encode(data, backbone, tmp_path / "cache")
    encode(data, backbone, tmp_path / "cache", "--splits", "test")
    assert "test: 5 rows written" in capsys.readouterr().out
    (data / "label" / "dict.txt").write_text("madeupword0000 0\n")  # as preprocess leaves it without labels
    encode(data, backbone, tmp_path / "cache", "--splits", "test")
    assert "test: 5 rows were there" in capsys.readouterr().out
    one = write_folder(tmp_path / "one", classes=1)
    with pytest.raises(SystemExit, match=f"{one}/label/dict.txt, which has 1 labels .0.: preprocess it with two or"):
        encode(one, backbone, tmp_path / "cache")


@pytest.mark.parametrize("options", [["--fp16"], ["--bf16"]])
def test_rows_for_half_precision(pairs, backbone, tmp_path, options):
    """The rows that such a run computes itself, bit for bit; runs in float32 never read them."""
    encode(pairs, backbone, tmp_path / "cache", *options)
    usual = ["--backbone", backbone, "--max-epoch", 1, "--fp16-no-flatten-grads", *options]
    found = train(pairs, tmp_path / "found", *usual, "--representation-cache", tmp_path / "cache")
    filled = train(pairs, tmp_path / "filled", *usual, "--representation-cache", tmp_path / "own")
    assert "M(x) of" not in found.output and found.log("train_loss") == filled.log("train_loss")
    names = sorted(path.name for path in (tmp_path / "own").glob("*.npy"))
    assert names == sorted(path.name for path in (tmp_path / "cache").glob("*.npy")) and len(names) == 2
    for name in names:
        np.testing.assert_array_equal(*(np.load(tmp_path / folder / name) for folder in ("own", "cache")))
    encode(pairs, backbone, tmp_path / "cache")
    assert len(list((tmp_path / "cache").glob("*.npy"))) == 4


def test_rows_of_float32_are_computed_without_tf32(pairs, backbone, tmp_path, monkeypatch):
    seen = set()

    def computed(*args, **more):
        seen.add(torch.get_float32_matmul_precision())
        return sentence_representation(*args, **more)

    monkeypatch.setattr(representation_cache, "sentence_representation", computed)
    torch.set_float32_matmul_precision("high")
    try:
        encode(pairs, backbone, tmp_path / "cache")
        assert seen == {"highest"} and torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_a_backbone_that_is_written_to_meanwhile_leaves_no_rows(pairs, tmp_path, monkeypatch):
    """They would be found under the name of the old one for ever."""
    backbone, other = write_backbone(tmp_path / "model.pt"), write_backbone(tmp_path / "other.pt", seed=1)
    encode(pairs, backbone, tmp_path / "expected")
    original = shutil.copy(backbone, tmp_path / "original.pt")

    def computed(*args, **more):
        shutil.copyfile(other, backbone)
        return sentence_representation(*args, **more)

    refused = pytest.raises(SystemExit, match=f"--backbone {backbone} was written to while it was in use")
    with monkeypatch.context() as patch, refused:
        patch.setattr(representation_cache, "sentence_representation", computed)
        encode(pairs, backbone, tmp_path / "cache")
    shutil.copyfile(original, backbone)
    encode(pairs, backbone, tmp_path / "cache")
    for path in (tmp_path / "expected").glob("*.npy"):
        np.testing.assert_array_equal(np.load(path), np.load(tmp_path / "cache" / path.name))


def test_options_that_change_the_rows(pairs, backbone, tmp_path):
    encode(pairs, backbone, tmp_path / "a", "--swap-pairs", "append", "--splits", "train")
    encode(pairs, backbone, tmp_path / "b", "--representation", "token-mean", "--representation-cache-dtype", "float16")
    (rows,) = (np.load(path) for path in (tmp_path / "a").glob("*.npy"))
    assert rows.shape == (48, 32) and rows.dtype == np.float32
    assert {np.load(path).dtype for path in (tmp_path / "b").glob("*.npy")} == {np.dtype("float16")}


def test_rows_for_methods_that_take_no_room_in_the_input(backbone, tmp_path, capsys):
    """Examples that are cut are longer without prompt rows among them."""
    data, short = write_folder(tmp_path / "data", longest=60), ["--shorten-method", "truncate"]
    encode(data, backbone, tmp_path / "cache", "--prompt-length", 0, *short)
    assert "train: 24 rows written" in capsys.readouterr().out
    options = ["--backbone", backbone, "--max-epoch", 1, "--representation-cache", tmp_path / "cache", *short]
    for name, prompt in (("keys", ["--prompt-insertion", "key-value"]), ("rows", [])):
        run = train(data, tmp_path / name, *options, "--method", "m-idpg-phm", *prompt)
        assert ("M(x) of" in run.output) == (name == "rows")


def test_regression_and_single_sentences(tmp_path, capsys):
    data = write_folder(tmp_path / "data", pairs=False, regression=True, words=40)
    encode(data, write_backbone(tmp_path / "model.pt", words=40), tmp_path / "cache", "--splits", "valid")
    assert "valid: 13 rows written" in capsys.readouterr().out


def test_bad_input(pairs, backbone, tmp_path):
    with pytest.raises(SystemExit, match="is not a binarized folder"):
        encode(tmp_path, backbone, tmp_path / "cache")
    with pytest.raises(SystemExit, match="--backbone .*nowhere is not a file"):
        encode(pairs, tmp_path / "nowhere", tmp_path / "cache")
    with pytest.raises(SystemExit, match="--representation-cache is empty: name a folder"):
        encode(pairs, backbone, "")
    with pytest.raises(SystemExit, match="has no input0/test.idx"):
        encode(pairs, backbone, tmp_path / "cache", "--splits", "test")


def test_splits_without_labels(backbone, tmp_path, capsys):
    data = write_folder(tmp_path / "data", splits={"train": 8, "valid": 8, "test": 5})
    for path in (data / "label").glob("test.*"):
        path.unlink()
    encode(data, backbone, tmp_path / "cache", "--splits", "test")
    assert "test: 5 rows written" in capsys.readouterr().out
