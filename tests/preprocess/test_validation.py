"""A damaged folder is refused by one line, or means the same: never changed without a word."""

from __future__ import annotations

import itertools
import random
import shutil
import struct

import pytest
import torch
from fairseq.data import indexed_dataset

from preprocess.checksums import RECORD, write_checksums
from preprocess.data_folder import DataFolder
from preprocess.errors import InputError
from preprocess.indexed import MAGIC, IndexedRows
from preprocess.validation import check_split
from tests.folders import write_folder, write_indexed
from tests.helpers import NO_FILES, ends_soon, put_no_file

SPLITS = {"train": 24, "valid": 13}
KINDS = {
    "pairs": {},
    "singles": {"pairs": False},
    "scores": {"regression": True},
    "classes": {"classes": 3, "pairs": False},
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """{kind: folder}, with checksums as our own preprocess leaves them."""
    root = tmp_path_factory.mktemp("sources")
    made = {kind: write_folder(root / kind, splits=SPLITS, **options) for kind, options in KINDS.items()}
    for folder in made.values():
        write_checksums(folder)
    return made


@pytest.fixture
def folder(sources, tmp_path):
    """Pairs as fairseq-preprocess makes them: without checksums."""
    copied = shutil.copytree(sources["pairs"], tmp_path / "data")
    (copied / RECORD).unlink()
    return copied


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize(
    "name",
    ["sha256.txt", "input0/train.idx", "input1/train.bin", "label/valid.idx", "label/dict.txt", "glove/glove.json"],
)
def test_what_is_no_file_is_refused(folder, name, kind):
    (folder / "glove").mkdir()
    put_no_file(folder / name, kind)
    with ends_soon(), pytest.raises(InputError, match=f"^{folder / name} "):
        DataFolder(folder)


def meaning(folder):
    """Everything that a run takes from a folder."""
    data = DataFolder(folder)
    counts = {split: check_split(data, split) for split in sorted(SPLITS)}
    found = [data.inputs, data.splits, data.regression, data.label_names, counts, data.vocabulary]
    for split in counts:
        for part in data.inputs:
            rows = data.rows(part, split)
            found.append([rows[i].tolist() for i in range(len(rows))])
        found.append(data.targets(split) if data.regression else data.classes(split).tolist())
    return found


def damage(draw, path, files):
    """One damage of a file: what a disk, a copy that was cut short or a careless hand does."""
    content = bytearray(path.read_bytes())
    one, other = sorted(draw.randrange(len(content)) for _ in range(2))
    size = min(draw.choice([1, 4, 16, 64]), len(content) - other)
    kind = draw.choice(["flip", "cut", "zero", "swap", "longer", "empty", "gone", "another"])
    if kind == "flip":
        content[one] ^= 1 << draw.randrange(8)
    elif kind == "cut":
        del content[one:]
    elif kind == "zero":
        content[other : other + size] = bytes(size)
    elif kind == "swap":
        content[one : one + size], content[other : other + size] = (
            content[other : other + size],
            content[one : one + size],
        )
    elif kind == "longer":
        content += content[one : one + size]
    elif kind == "empty":
        content.clear()
    elif kind == "another":  # well-formed, but of another split or part
        content[:] = draw.choice([file for file in files if file.suffix == path.suffix]).read_bytes()
    path.write_bytes(bytes(content))
    if kind == "gone":
        path.unlink()
    return kind


def verdict(folder, expected):
    """identical, error or changed; every other exception is a traceback, and a bug."""
    try:
        return "identical" if meaning(folder) == expected else "changed"
    except InputError as error:
        assert str(folder) in str(error) and "\n" not in str(error)
        return "error"


@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize("kind", list(KINDS))
def test_damaged_folders(sources, tmp_path, kind, checksums):
    """120 damages of each kind of data: refused or identical; without checksums, whatever passes is well-formed."""
    expected, verdicts = meaning(sources[kind]), []
    for seed in range(120):
        draw = random.Random(f"{kind} {seed}")
        broken = shutil.copytree(sources[kind], tmp_path / str(seed))
        if not checksums:
            (broken / RECORD).unlink()
        files = sorted(file for file in broken.rglob("*") if file.is_file())
        done = damage(draw, draw.choice(files), files)
        verdicts.append(verdict(broken, expected))
        if verdicts[-1] == "changed":
            assert not checksums, (seed, done)
            data = DataFolder(broken)
            for part, split in itertools.product(data.inputs, SPLITS):
                rows = data.rows(part, split)
                assert all(rows[i][-1] == 2 <= rows[i].min() for i in range(len(rows)))
                assert all(rows[i].max() < data.vocabulary for i in range(len(rows)))
    assert verdicts.count("error") > 60 if checksums else {"changed", "error"} <= set(verdicts)


# --- each rule, without checksums ----------------------------------------------------------------


def rewrite(folder, name, change):
    """``change`` gets the rows of a file as lists and returns others."""
    rows = IndexedRows(folder / name)
    write_indexed(folder / name, change([rows[i].tolist() for i in range(len(rows))]))


def changed(row, place, value):
    def change(rows):
        rows[row][place] = value
        return rows

    return change


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        ("input0/valid", changed(3, -1, 7), "input0/valid.bin example 4"),
        ("input1/valid", changed(2, 0, 55), "input1/valid.bin example 3 has the id 55"),
        ("input1/valid", changed(2, 0, 0), "input1/valid.bin example 3 has the id 0"),
        ("input0/valid", changed(12, 0, 1), "input0/valid.bin example 13 has the id 1"),
        ("label/valid", changed(1, 0, 6), "label/valid example 2"),
        ("label/valid", changed(1, 0, 3), "label/valid example 2"),
        ("label/valid", changed(1, 1, 4), "label/valid example 2"),
        ("label/valid", lambda rows: [[4, 4, 2], *rows[1:]], "label/valid.bin example 1"),
        ("label/valid", lambda rows: rows[1:], "input0 13, input1 13, label 12"),
        ("input1/valid", lambda rows: rows[1:], "input0 13, input1 12, label 13"),
    ],
)
def test_rows_that_are_wrong(folder, name, change, named):
    rewrite(folder, "input0/valid", changed(0, 0, 54))  # <mask> is an id of the vocabulary
    assert check_split(DataFolder(folder), "valid") == 13
    rewrite(folder, name, change)
    with pytest.raises(InputError, match=named):
        check_split(DataFolder(folder), "valid")
    check_split(DataFolder(folder), "train")


@pytest.mark.parametrize(
    ("place", "format_", "value"),
    [
        (4, "<i", 0),  # a row without tokens
        (4, "<i", -3),
        (8, "<i", 2**30),
        (13 * 4 + 8, "<q", 1),  # a row that begins within another
        (13 * 4, "<q", 2),
        (13 * 4 + 16, "<q", -2),
    ],
)
def test_rows_at_wrong_places(folder, place, format_, value):
    """A number of the index, counted in bytes behind its head, is another."""
    path = folder / "input0" / "valid.idx"
    content = bytearray(path.read_bytes())
    struct.pack_into(format_, content, len(MAGIC) + 17 + place, value)
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"input0/valid.idx .*row \d+"):
        check_split(DataFolder(folder), "valid")


def test_fairseqs_other_formats(folder):
    builder = indexed_dataset.make_builder(str(folder / "input0" / "valid.bin"), impl="cached")
    for row in ([5, 2], [6, 2]):
        builder.add_item(torch.tensor(row))
    builder.finalize(str(folder / "input0" / "valid.idx"))
    with pytest.raises(InputError, match="valid.idx is of --dataset-impl cached or lazy"):
        check_split(DataFolder(folder), "valid")
    (folder / "input1" / "train").write_text("w1 w2\n")
    with pytest.raises(InputError, match="input1/train stands beside train.idx"):
        check_split(DataFolder(folder), "train")


def replaced(old, new):
    return lambda text: text.replace(old, new)


SCORES = {"nan\n": 1, "0.5\n-inf\n": 2, "0.5\nhigh\n": 2, "0.5\n\n0.5\n": 2, "0.5\n1 2\n": 2}


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        *(("label/valid.label", lambda _, new=text: new, f"valid.label line {line}") for text, line in SCORES.items()),
        ("label/valid.label", lambda _: "0.5\n", "input0 13, input1 13, label 1"),
        ("label/valid.label", lambda _: "0.5\n\udcff\n", "valid.label"),
        ("input0/dict.txt", lambda text: text + "w3 1\n", "input0/dict.txt line 51"),
        ("input0/dict.txt", lambda text: "<pad> 1\n" + text, "input0/dict.txt line 1"),
        ("input0/dict.txt", replaced("w7 1", "w7"), "input0/dict.txt line 8"),
        ("input0/dict.txt", replaced("w7 1", "w7 -1"), "input0/dict.txt line 8"),
        ("input0/dict.txt", replaced("w7 1", ""), "input0/dict.txt line 8"),
        ("input0/dict.txt", replaced("w7 1", "w7x 1"), "input0/dict.txt and .*input1/dict.txt"),
        ("input1/dict.txt", lambda text: "", "input0/dict.txt and .*input1/dict.txt"),
        ("label/dict.txt", replaced("1 1", "0 1"), "label/dict.txt line 2"),
        ("label/dict.txt", lambda text: "madeupword0000 0\n" + text, "label/dict.txt .*madeupword"),
    ],
)
def test_scores_and_dictionaries(sources, folder, tmp_path, name, change, named):
    if name == "label/valid.label":
        folder = shutil.copytree(sources["scores"], tmp_path / "scores")
        (folder / RECORD).unlink()
    path = folder / name
    path.write_text(change(path.read_text()), errors="surrogateescape")
    with pytest.raises(InputError, match=named):
        check_split(DataFolder(folder), "valid")


def test_splits_of_other_names_come_last(folder):
    for split in ("dev", "valid2", "test"):
        for file in folder.glob("*/valid.*"):
            shutil.copy(file, file.with_name(f"{split}{file.suffix}"))
    data = DataFolder(folder)
    assert data.splits == ["train", "valid", "valid2", "test", "dev"] and check_split(data, "dev") == 13


def test_each_split_is_read_once(folder, monkeypatch):
    data, calls = DataFolder(folder), []
    monkeypatch.setattr("preprocess.validation.check_sentences", lambda *args: calls.append(args) or 13)
    assert check_split(data, "valid") == check_split(data, "valid") == 13 and len(calls) == 2
