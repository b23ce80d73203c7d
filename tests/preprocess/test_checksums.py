"""Checksums of a data folder: whatever was changed, lost or added since they were written is named."""

from __future__ import annotations

import shutil

import pytest

from preprocess.checksums import RECORD, write_checksums
from preprocess.data_folder import DataFolder
from preprocess.errors import InputError
from preprocess.validation import check_split
from tests.folders import write_folder
from tests.preprocess.commands import run, write_vocab
from tests.preprocess.test_validation import changed, rewrite


@pytest.fixture
def folder(tmp_path):
    """Of pairs, with the checksums that our own preprocess leaves."""
    written = write_folder(tmp_path / "data", splits={"train": 24, "valid": 13})
    write_checksums(written)
    return written


def test_a_changed_file_is_named_with_the_remedy(folder):
    rewrite(folder, "input0/valid", changed(0, 0, 9))  # another word
    with pytest.raises(InputError, match="input0/valid.bin is not what preprocess wrote"):
        check_split(DataFolder(folder), "valid")
    check_split(DataFolder(folder), "train")
    (folder / RECORD).unlink()
    check_split(DataFolder(folder), "valid")


@pytest.mark.parametrize("name", ["label/valid.idx", "input1/valid.bin", "input1/dict.txt", "label/dict.txt", "input1"])
def test_a_file_that_is_gone(folder, name):
    shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()
    with pytest.raises(InputError, match=name):
        check_split(DataFolder(folder), "valid")


def test_a_split_that_was_added_by_hand(folder):
    for file in folder.glob("*/valid.*"):
        shutil.copy(file, file.with_name(f"test{file.suffix}"))
    with pytest.raises(InputError, match="input0/test.idx"):
        check_split(DataFolder(folder), "test")


@pytest.mark.parametrize("content", [b"", b"\xff", b"no checksum\n", b"0" * 64 + b"  input0/train.bin"])
def test_a_damaged_record(folder, content):
    (folder / RECORD).write_bytes(content)
    with pytest.raises(InputError, match="sha256.txt"):
        DataFolder(folder)


def test_preprocess_and_few_shot_leave_checksums(tmp_path):
    text = "".join(f"text {i}\t{i % 2}\n" for i in range(30))
    (tmp_path / "x.tsv").write_text(f"t\tlabel\n{text}")
    files = [f"{split}={tmp_path / 'x.tsv'}" for split in ("train", "valid")]
    vocab = write_vocab(tmp_path / "vocab")
    options = ["--text-columns", "t", "--out", str(tmp_path), "--vocab", str(vocab)]
    assert run(["x", "--from-tsv", *files, *options]) == 0
    assert run(["few-shot", "x", "--data", f"{tmp_path}/x-bin", "--out", str(tmp_path), "--k", "3", "--dev", "9"]) == 0
    for folder in (tmp_path / "x-bin", tmp_path / "x-K3-seed1-bin"):
        data = DataFolder(folder)
        assert set(data.record) == {"preprocess.json", *(str(file.relative_to(folder)) for file in folder.glob("*/*"))}
        assert [check_split(data, split) for split in data.splits]
        (folder / "preprocess.json").write_text('{"bpe": "gpt2"}')
        with pytest.raises(InputError, match="preprocess.json"):
            DataFolder(folder)
