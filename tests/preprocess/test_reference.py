"""Byte for byte the folders that the paper's authors published, wherever a raw file of them is at hand.

Comparable from raw files: valid (= test) of CR, valid of MRPC and STS-B; RTE's and MR's published folders are only at
hand as decoded text. From that text, which is the content of the published folders, also every other split.
"""

import shutil
from pathlib import Path

import pytest

from preprocess.data_folder import DataFolder
from preprocess.encoders import load_encoder
from tests.preprocess.commands import run

SHARED = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the published folders are not here")
RAW, TEXT, REFERENCE, VOCAB = SHARED / "raw", SHARED / "text", SHARED / "reference_bin", SHARED / "gpt2_bpe"


def make(tmp_path, *arguments):
    assert run([*map(str, arguments), "--out", str(tmp_path), "--vocab", str(VOCAB)]) == 0
    return tmp_path / f"{arguments[0]}-bin"


def same_bytes(ours: Path, published: Path, files):
    for file in files:
        assert (ours / file).read_bytes() == (published / file).read_bytes(), file


def files_of(split, inputs, label=("bin", "idx")):
    parts = [f"input{number}" for number in range(inputs)]
    tokens = [f"{part}/{split}.{end}" for part in parts for end in ("bin", "idx")]
    return [*tokens, *(f"{part}/dict.txt" for part in parts), *(f"label/{split}.{end}" for end in label)]


@pytest.mark.parametrize(
    ("task", "folder", "splits", "options", "inputs"),
    [
        ("CR", "cr", ("valid", "test"), ["--csv-quotes", "keep"], 1),
        ("MRPC", "MRPC", ("valid",), [], 2),
        ("STS-B", "STS-B", ("valid",), [], 2),
    ],
)
def test_raw_files(task, folder, splits, options, inputs, tmp_path):
    ours = make(tmp_path, task, "--raw", RAW, "--splits", *splits, *options)
    for split in splits:
        files = files_of(split, inputs, ("label",) if task == "STS-B" else ("bin", "idx"))
        same_bytes(ours, REFERENCE / f"{folder}-bin", files)


@pytest.mark.parametrize(("task", "quotes"), [("RTE", "strip"), ("MR", "keep")])
def test_decoded_text_of_the_published_folder(task, quotes, tmp_path):
    """The published folder itself is not at hand: our ids must decode to its text, with the same labels."""
    ours = DataFolder(make(tmp_path, task, "--raw", RAW, "--splits", "valid", "--csv-quotes", quotes))
    lines = (TEXT / (task if task == "RTE" else "mr") / "valid.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    columns = list(zip(*(line.split("\t") for line in lines)))
    assert [ours.label_names[code] for code in ours.classes("valid")] == list(columns[0])
    encoder = load_encoder("gpt2", VOCAB)
    for part, texts in zip(ours.inputs, columns[1:]):
        rows = ours.rows(part, "valid")
        assert encoder.decode([rows[i][:-1] for i in range(len(rows))]) == list(texts)


@pytest.mark.parametrize("task, folder, columns", [("CR", "cr", 1), ("MRPC", "MRPC", 2), ("STS-B", "STS-B", 2)])
def test_every_split_from_the_published_text(task, folder, columns, tmp_path):
    texts = [str(number + 2) for number in range(columns)]
    regression = ["--regression"] if task == "STS-B" else []
    files = [f"{split}={TEXT / folder / split}.tsv" for split in ("train", "valid")]
    ours = make(
        tmp_path, task, "--from-tsv", *files, "--no-header", "--text-columns", *texts, "--label-column", 1, *regression
    )
    for split in ("train", "valid"):
        label = ("label",) if regression else ("bin", "idx")
        same_bytes(ours, REFERENCE / f"{folder}-bin", files_of(split, columns, label))


@pytest.mark.parametrize("folder, columns", [("MRPC", 2), ("STS-B", 2)])
def test_unlabelled_test_split_from_the_published_text(folder, columns, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    header = {"MRPC": "#1 String\t#2 String", "STS-B": "sentence1\tsentence2"}[folder]
    lines = (TEXT / folder / "test.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    text = "".join(line.lstrip("\t") + "\n" for line in lines)
    (raw / "test.tsv").write_text(f"{header}\n{text}", encoding="utf-8")
    ours = make(tmp_path, folder, "--raw", raw, "--splits", "test")
    same_bytes(ours, REFERENCE / f"{folder}-bin", files_of("test", columns, ()))
    assert not list((ours / "label").glob("test*"))


def test_a_zip_archive_is_the_same_as_its_folder(tmp_path):
    folder = tmp_path / "glue" / "RTE"
    folder.mkdir(parents=True)
    shutil.copy(RAW / "RTE-dev.tsv", folder / "dev.tsv")
    archive = shutil.make_archive(str(tmp_path / "RTE"), "zip", tmp_path / "glue")
    ours = make(tmp_path / "1", "RTE", "--raw", tmp_path / "glue", "--splits", "valid")
    for raw in (archive, tmp_path):
        zipped = make(tmp_path / f"from-{Path(raw).name}", "RTE", "--raw", raw, "--splits", "valid")
        same_bytes(zipped, ours, files_of("valid", 2))
