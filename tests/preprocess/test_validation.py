"""A damaged folder is refused by one line, or means the same: never changed without a word."""

import shutil
import struct

import pytest
import torch
from fairseq.data import indexed_dataset

from preprocess.checksums import write_checksums
from preprocess.data_folder import DataFolder, check_split
from preprocess.errors import InputError
from preprocess.indexed import MAGIC, IndexedRows
from tests.folders import write_folder, write_indexed
from tests.preprocess.commands import run

SPLITS = {"train": 24, "valid": 13}


@pytest.fixture
def folder(tmp_path):
    """Pairs as fairseq-preprocess makes them: without checksums."""
    return write_folder(tmp_path / "data", splits=SPLITS)


@pytest.mark.parametrize(
    ("name", "row", "place", "value"),
    [
        ("input0/valid", 3, -1, 7),
        ("input1/valid", 2, 0, 55),
        ("label/valid", 1, 0, 3),
        ("label/valid", 0, slice(1, 1), [4]),  # two labels
    ],
)
def test_rows_that_are_wrong(folder, name, row, place, value):
    rows = [IndexedRows(folder / name)[i].tolist() for i in range(13)]
    write_indexed(folder / "input0" / "train", [[54, 2]] * 24)  # <mask> is an id of the vocabulary
    assert check_split(DataFolder(folder), "valid") == 13
    rows[row][place] = value
    write_indexed(folder / name, rows)
    with pytest.raises(InputError, match=f"{name}.* example {row + 1}"):
        check_split(DataFolder(folder), "valid")
    assert check_split(DataFolder(folder), "train") == 24


def test_rows_at_wrong_places(folder):
    """A row that begins within another: the second offset of the index; and one without tokens."""
    path = folder / "input0" / "valid.idx"
    content = bytearray(path.read_bytes())
    struct.pack_into("<q", content, len(MAGIC) + 17 + 13 * 4 + 8, 1)
    path.write_bytes(bytes(content))
    write_indexed(folder / "input0" / "train", [[5, 2]] * 23 + [[]])
    for split in SPLITS:
        with pytest.raises(InputError, match=f"input0/{split}.idx and"):
            check_split(DataFolder(folder), split)


def test_fairseqs_other_format(folder):
    builder = indexed_dataset.make_builder(str(folder / "input0" / "valid.bin"), impl="cached")
    builder.add_item(torch.tensor([5, 2]))
    builder.finalize(str(folder / "input0" / "valid.idx"))
    with pytest.raises(InputError, match="input0/valid.* mmap"):
        check_split(DataFolder(folder), "valid")


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        ("label/valid.label", lambda _: "nan\n", "valid.label line 1"),
        ("label/valid.label", lambda _: "0.5\n", "label 1"),
        ("input0/dict.txt", lambda text: text + "w3 1\n", "input0/dict.txt line 51"),
        ("input0/dict.txt", lambda text: text.replace("w7 1", "w7x 1"), "input0/dict.txt and .*input1/dict.txt"),
        ("label/dict.txt", lambda text: text.replace("1 1", "0 1"), "label/dict.txt line 2"),
        ("label/dict.txt", lambda text: "madeupword0000 0\n" + text, "label/"),
    ],
)
def test_scores_and_dictionaries(folder, tmp_path, name, change, named):
    if name == "label/valid.label":
        folder = write_folder(tmp_path / "scores", splits=SPLITS, regression=True, pairs=False)
    path = folder / name
    path.write_text(change(path.read_text()), errors="surrogateescape")
    with pytest.raises(InputError, match=named):
        check_split(DataFolder(folder), "valid")


@pytest.mark.parametrize("name", ["label/valid.idx", "label/dict.txt", "input1"])
def test_a_file_that_is_gone(folder, name):
    write_checksums(folder)
    shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()
    with pytest.raises(InputError, match=name):
        check_split(DataFolder(folder), "valid")


def test_preprocess_and_few_shot_leave_checksums(commands):
    path = commands.write("x.tsv", "t\tlabel\n" + "".join(f"text {i}\t{i % 2}\n" for i in range(30)))
    data = commands.ok("x", "--from-tsv", f"train={path}", f"valid={path}", "--text-columns", "t")
    assert run(["few-shot", "x", "--data", data.path, "--out", commands.out, "--k", 3, "--dev", 9]) == 0
    for folder in (data.path, commands.out / "x-K3-seed1-bin"):
        written = {str(file.relative_to(folder)) for file in folder.glob("*/*")}
        assert set(DataFolder(folder).record) == {"preprocess.json", *written}
        (folder / "preprocess.json").write_text('{"bpe": "gpt2"}')
        with pytest.raises(InputError, match="preprocess.json"):
            DataFolder(folder)
