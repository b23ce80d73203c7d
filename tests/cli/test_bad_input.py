"""Bad input ends with one clear line, a status other than 0, and nothing half-written."""

from __future__ import annotations

import shutil

import pytest
import torch

from tests.folders import train, validate, write_backbone, write_folder
from tests.helpers import TINY


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


def test_no_backbone(pairs, tmp_path):
    assert "--backbone is missing: give the path" in refuse(pairs, tmp_path)


def test_unknown_backbone(pairs, tmp_path):
    assert "nowhere.pt is not a file: give the path" in refuse(pairs, tmp_path, "--backbone", "nowhere.pt")


def test_backbone_that_is_no_checkpoint(pairs, tmp_path):
    for content in (b"not a checkpoint", b""):
        path = tmp_path / "model.pt.txt"
        path.write_bytes(content)
        assert "is not a fairseq checkpoint" in refuse(pairs, tmp_path, "--backbone", path)


def test_backbone_that_would_execute_code(pairs, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    torch.save({"args": Evil(), "model": {}}, tmp_path / "evil.bin")
    assert "is not a fairseq checkpoint" in refuse(pairs, tmp_path / "run", "--backbone", tmp_path / "evil.bin")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ({"encoder_embed_dim": 64}, "--encoder-embed-dim is 32 but the backbone"),
        ({"encoder_layers": 2}, "--encoder-layers is 3 but the backbone"),
        ({"encoder_attention_heads": 2}, "--encoder-attention-heads is 4 but the backbone"),
        ({"max_positions": 32}, "--max-positions is 64 but the backbone"),
        ({"words": 40}, "the data's dictionary has 55 symbols but the backbone"),
    ],
)
def test_backbone_of_another_size(pairs, tmp_path, size, message):
    backbone = write_backbone(tmp_path / "b" / "model.pt", **size)
    assert message in refuse(pairs, tmp_path / "run", "--backbone", backbone)


def test_a_folder_of_one_class(tmp_path):
    data = write_folder(tmp_path / "one", classes=1)
    remedy = "which has 1 labels (0): preprocess it with two or more --labels"
    assert remedy in refuse(data, tmp_path / "run", "--num-classes", 2)


def test_width_is_read_from_the_tensors_where_nothing_is_recorded(pairs, tmp_path):
    backbone = write_backbone(tmp_path / "model.pt", encoder_embed_dim=64)
    state = torch.load(backbone, weights_only=True)
    for name in TINY:
        delattr(state["args"], name)
    torch.save(state, backbone)
    assert "has width 64" in refuse(pairs, tmp_path / "run", "--backbone", backbone)


def test_dictionary_of_other_symbols(pairs, tmp_path):
    backbone = write_backbone(tmp_path / "b" / "model.pt")
    text = (pairs / "input0" / "dict.txt").read_text()
    (tmp_path / "b" / "dict.txt").write_text(text)
    train(pairs, tmp_path / "same", "--backbone", backbone, "--max-update", 1)
    (tmp_path / "b" / "dict.txt").write_text(text.replace("w7 ", "w8x "))
    message = refuse(pairs, tmp_path / "run", "--backbone", backbone)
    assert "differs from" in message and "'w7'" in message and "'w8x'" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--phm-n", 5], "--phm-n 5 does not divide the width d = 32"),
        (["--generator-hidden-size", 6], "--phm-n 4 does not divide --generator-hidden-size m = 6"),
        (["--prompt-length", 0], "--prompt-length 0: give 1 or more"),
        (["--prompt-length", 61], "--prompt-length 61 leaves no room for text within --max-positions 64"),
        (["--prompt-length", 50], "examples of split valid are too long: the first, line"),
        (["--prompt-position", 5], "--prompt-position 5 is unknown"),
        (["--prompt-layers", "0,3"], "--prompt-layers 0,3: give "),
        (["--method", "m-idpg"], "--method m-idpg is unknown: did you mean m-idpg-phm? choose from"),
        (["--num-classes", 3], "--num-classes 3 disagrees with"),
        (["--num-classes", -1], "--num-classes -1"),
        (["--log-file", "/dev/null/train.log"], "--log-file /dev/null/train.log cannot be written to ("),
        (["--lr", "1e38"], "the run has diverged: the loss is NaN"),
    ],
)
def test_impossible_options(pairs, backbone, tmp_path, options, message):
    assert message in refuse(pairs, tmp_path, "--backbone", backbone, *options)


@pytest.mark.parametrize("position", [2, 3])
def test_positions_of_pairs_on_single_sentences(singles, backbone, tmp_path, position):
    message = refuse(singles, tmp_path, "--backbone", backbone, "--prompt-position", position)
    assert f"--prompt-position {position} needs sentence pairs" in message


def test_folders_with_something_missing(backbone, tmp_path):
    assert "does not exist" in refuse(tmp_path / "nowhere", tmp_path / "run", "--backbone", backbone)
    for number, (missing, message) in enumerate(
        [
            ("input0", "has no input0/dict.txt"),
            ("label", "has no label/dict.txt"),
            ("input0/train.idx", "has no input0/train.idx"),
            ("label/valid.idx", "split valid of"),
        ]
    ):
        folder = write_folder(tmp_path / str(number))
        gone = folder / missing
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
        assert message in refuse(folder, tmp_path / "run", "--backbone", backbone)


def test_empty_split_and_unequal_parts(backbone, tmp_path):
    empty = write_folder(tmp_path / "a", splits={"train": 8, "valid": 0})
    assert "split valid of" in refuse(empty, tmp_path / "run", "--backbone", backbone)
    unequal = write_folder(tmp_path / "b")
    shorter = write_folder(tmp_path / "c", splits={"train": 24, "valid": 12})
    for suffix in ("bin", "idx"):
        shutil.copy(shorter / "label" / f"valid.{suffix}", unequal / "label" / f"valid.{suffix}")
    assert "different numbers of examples (input0 13, input1 13, label 12)" in refuse(
        unequal, tmp_path / "run", "--backbone", backbone
    )
    for suffix in ("bin", "idx"):
        shutil.copy(shorter / "input1" / f"valid.{suffix}", unequal / "input1" / f"valid.{suffix}")
    assert "different numbers of examples (input0 13, input1 12, label 12)" in refuse(
        unequal, tmp_path / "run", "--backbone", backbone
    )


def test_checkpoint_on_another_backbone(trained, pairs, other_backbone):
    checkpoint = trained[1] / "checkpoint_best.pt"
    overrides = ["--model-overrides", {"backbone": str(other_backbone)}]
    line = validate(pairs, checkpoint, *overrides, succeed=False).last_line
    assert "is not the backbone this checkpoint was trained on" in line
    line = train(pairs, trained[1], "--backbone", other_backbone, "--max-epoch", 6, succeed=False).last_line
    assert "is not the backbone this checkpoint was trained on" in line


def test_resuming_with_other_options(trained, pairs, backbone):
    options = ["--prompt-length", 3, "--max-epoch", 6]
    line = train(pairs, trained[1], "--backbone", backbone, *options, succeed=False).last_line
    assert "was trained with --prompt-length 5, now 3: give the same, or another --save-dir" in line


def test_restoring_one_encoder_over_another(pairs, backbone, other_backbone, tmp_path):
    reset = ["--reset-optimizer", "--reset-dataloader", "--reset-meters"]
    options = ["--backbone", backbone, "--restore-file", other_backbone, *reset]
    assert "--restore-file holds another encoder than --backbone" in refuse(pairs, tmp_path, *options)


def test_prompts_as_a_backbone(trained, pairs, tmp_path):
    message = refuse(pairs, tmp_path, "--backbone", trained[1] / "checkpoint_best.pt")
    assert "holds prompts only; it was trained on the backbone" in message


def test_an_architecture_that_takes_no_prompts(pairs, tmp_path):
    finished = train(pairs, tmp_path, "--arch", "roberta", succeed=False, without="--phm-n")
    assert "--arch roberta takes no prompts: give --arch roberta_idpg" in finished.last_line


def test_no_init_token(pairs, backbone, tmp_path):
    message = refuse(pairs, tmp_path, "--backbone", backbone, without="--init-token")
    assert "--init-token is missing" in message


def test_a_rate_that_no_update_is_made_with(pairs, backbone, tmp_path):
    options = ["--lr", "1e-4,1e-2", "--stop-min-lr", "1e-3"]
    assert "--stop-min-lr 0.001" in refuse(pairs, tmp_path, "--backbone", backbone, *options)


@pytest.mark.parametrize("options", [["--batch-size", 100], ["--update-freq", 100]])
def test_no_batch_is_left(pairs, backbone, tmp_path, options):
    line = refuse(pairs, tmp_path, "--backbone", backbone, "--skip-remainder-batch", *options)
    assert "--skip-remainder-batch leaves out the last of" in line and "smaller --batch-size" in line
