"""Bad input ends with one line that names it, a status other than 0, and nothing half-written."""

from __future__ import annotations

import shutil

import pytest
import torch

from tests.folders import train, validate, write_backbone, write_folder


@pytest.fixture(scope="module")
def other_backbone(place):
    return write_backbone(place / "other" / "model.pt", seed=1)


def refuse(folder, save_dir, *options, without=""):
    """The last line of a run that is refused before anything is written."""
    finished = train(folder, save_dir, *options, "--max-update", 2, succeed=False, without=without)
    assert finished.last_line.startswith("fairseq_idpg: "), finished.output[-2000:]
    assert "Traceback" not in finished.output
    assert not list(save_dir.glob("*.pt"))
    return finished.last_line


def test_what_is_no_backbone(trained, pairs, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    torch.save({"args": Evil(), "model": {}}, tmp_path / "evil.bin")
    (tmp_path / "text").write_bytes(b"not a checkpoint")
    assert "--backbone is missing" in refuse(pairs, tmp_path)
    for path in ("nowhere.pt", tmp_path / "text", tmp_path / "evil.bin"):
        assert f"{path} is not a" in refuse(pairs, tmp_path / "run", "--backbone", path)
    assert not (tmp_path / "executed").exists()
    prompts = trained[1] / "checkpoint_best.pt"
    assert "holds prompts only" in refuse(pairs, tmp_path / "run", "--backbone", prompts)


@pytest.mark.parametrize(
    ("size", "named"),
    [
        ({"encoder_embed_dim": 64}, "--encoder-embed-dim is 32 but the backbone"),
        ({"max_positions": 32}, "--max-positions is 64 but the backbone"),
        ({"words": 40}, "the data's dictionary has 55 symbols but the backbone"),
    ],
)
def test_backbone_of_another_size(pairs, tmp_path, size, named):
    backbone = write_backbone(tmp_path / "b" / "model.pt", **size)
    assert named in refuse(pairs, tmp_path / "run", "--backbone", backbone)


def test_dictionary_of_other_symbols(pairs, tmp_path):
    backbone = write_backbone(tmp_path / "b" / "model.pt")
    text = (pairs / "input0" / "dict.txt").read_text()
    (tmp_path / "b" / "dict.txt").write_text(text.replace("w7 ", "w8x "))
    message = refuse(pairs, tmp_path / "run", "--backbone", backbone)
    assert "differs from" in message and "'w7'" in message and "'w8x'" in message


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--phm-n", 5], "--phm-n 5"),
        (["--prompt-length", 61], "--prompt-length 61 leaves no room for text within --max-positions 64"),
        (["--prompt-length", 50], "examples of split valid are too long: the first, line"),
        (["--prompt-position", 5], "--prompt-position 5"),
        (["--prompt-layers", "0,3"], "--prompt-layers 0,3"),
        (["--method", "m-idpg"], "--method m-idpg is unknown: did you mean m-idpg-phm?"),
        (["--num-classes", 3], "--num-classes 3 disagrees with"),
        (["--restore-file", "nowhere.pt"], "--restore-file nowhere.pt is not a file"),
        (["--lr", "1e38"], "the run has diverged: the loss is NaN"),
    ],
)
def test_impossible_options(pairs, backbone, tmp_path, options, named):
    assert named in refuse(pairs, tmp_path, "--backbone", backbone, *options)


def test_options_that_are_missing(pairs, backbone, tmp_path):
    assert "--init-token is missing" in refuse(pairs, tmp_path, "--backbone", backbone, without="--init-token")
    finished = train(pairs, tmp_path, "--arch", "roberta", succeed=False, without="--phm-n")
    assert "--arch roberta takes no prompts" in finished.last_line


def test_positions_of_pairs_on_single_sentences(singles, backbone, tmp_path):
    assert "--prompt-position 3" in refuse(singles, tmp_path, "--backbone", backbone, "--prompt-position", 3)


def test_folders_with_something_missing(backbone, tmp_path):
    assert "nowhere" in refuse(tmp_path / "nowhere", tmp_path / "run", "--backbone", backbone)
    for missing in ("input0/dict.txt", "label/dict.txt", "input0/train.idx", "label/valid.idx"):
        folder = write_folder(tmp_path / missing.replace("/", "-"))
        (folder / missing).unlink()
        assert missing in refuse(folder, tmp_path / "run", "--backbone", backbone)


def test_empty_split_and_unequal_parts(backbone, tmp_path):
    empty = write_folder(tmp_path / "a", splits={"train": 8, "valid": 0})
    assert "split valid of" in refuse(empty, tmp_path / "run", "--backbone", backbone)
    unequal = write_folder(tmp_path / "b")
    shorter = write_folder(tmp_path / "c", splits={"train": 24, "valid": 12})
    for suffix in ("bin", "idx"):
        shutil.copy(shorter / "label" / f"valid.{suffix}", unequal / "label" / f"valid.{suffix}")
    assert "(input0 13, input1 13, label 12)" in refuse(unequal, tmp_path / "run", "--backbone", backbone)


def test_checkpoint_on_another_backbone(trained, pairs, other_backbone):
    overrides = ["--model-overrides", {"backbone": str(other_backbone)}]
    for refused in (
        validate(pairs, trained[1] / "checkpoint_best.pt", *overrides, succeed=False),
        train(pairs, trained[1], "--backbone", other_backbone, "--max-epoch", 6, succeed=False),
    ):
        assert "is not the backbone this checkpoint was trained on" in refused.last_line


def test_restoring_one_encoder_over_another(pairs, backbone, other_backbone, tmp_path):
    reset = ["--reset-optimizer", "--reset-dataloader", "--reset-meters"]
    options = ["--backbone", backbone, "--restore-file", other_backbone, *reset]
    assert "--restore-file holds another encoder than --backbone" in refuse(pairs, tmp_path, *options)
