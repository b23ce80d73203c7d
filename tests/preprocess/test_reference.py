"""Byte for byte the folders that the paper's authors published, wherever a raw file of them is at hand.

RTE's and MR's published folders are only at hand as decoded text.
"""

from pathlib import Path

import pytest

from preprocess.data_folder import DataFolder
from preprocess.encoders import load_encoder
from tests.preprocess.commands import run

SHARED = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the published folders are not here")
RAW, TEXT, REFERENCE, VOCAB = SHARED / "raw", SHARED / "text", SHARED / "reference_bin", SHARED / "gpt2_bpe"


def make(tmp_path, *arguments):
    assert run([*arguments, "--out", tmp_path, "--vocab", VOCAB]) == 0
    return tmp_path / f"{arguments[0]}-bin"


def check_bytes(ours: Path, folder: str, split: str, inputs: int, label: tuple[str, ...]) -> None:
    parts = [f"input{number}" for number in range(inputs)]
    tokens = [f"{part}/{split}.{end}" for part in parts for end in ("bin", "idx")]
    for file in [*tokens, *(f"{part}/dict.txt" for part in parts), *(f"label/{split}.{end}" for end in label)]:
        assert (ours / file).read_bytes() == (REFERENCE / f"{folder}-bin" / file).read_bytes(), file


def own(task, folder, columns, *options):
    """The command for the published text of both splits, in which labels stand first."""
    files = [f"{split}={TEXT / folder / split}.tsv" for split in ("train", "valid")]
    texts = ["--text-columns", *range(2, columns + 2), "--label-column", 1]
    return [task, "--from-tsv", *files, "--no-header", *texts, *options]


@pytest.mark.parametrize(
    ("command", "folder", "splits", "inputs"),
    [
        (["CR", "--raw", RAW, "--splits", "valid", "test", "--csv-quotes", "keep"], "cr", ("valid", "test"), 1),
        (["MRPC", "--raw", RAW, "--splits", "valid"], "MRPC", ("valid",), 2),
        (["STS-B", "--raw", RAW, "--splits", "valid"], "STS-B", ("valid",), 2),
        (own("CR", "cr", 1), "cr", ("train", "valid"), 1),
        (own("MRPC", "MRPC", 2), "MRPC", ("train", "valid"), 2),
        (own("STS-B", "STS-B", 2, "--regression"), "STS-B", ("train", "valid"), 2),
    ],
)
def test_raw_files_and_published_text(command, folder, splits, inputs, tmp_path):
    ours = make(tmp_path, *command)
    for split in splits:
        check_bytes(ours, folder, split, inputs, ("label",) if folder == "STS-B" else ("bin", "idx"))


@pytest.mark.parametrize(("task", "quotes"), [("RTE", "strip"), ("MR", "keep")])
def test_decoded_text_of_the_published_folder(task, quotes, tmp_path):
    """The published folder itself is not at hand: our ids must decode to its text, with the same labels."""
    ours = DataFolder(make(tmp_path, task, "--raw", RAW, "--splits", "valid", "--csv-quotes", quotes))
    lines = (TEXT / (task if task == "RTE" else "mr") / "valid.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    columns = list(zip(*(line.split("\t") for line in lines)))
    assert [ours.label_names[code] for code in ours.classes("valid")] == list(columns[0])
    encoder = load_encoder("gpt2", VOCAB)
    for part, texts in zip(ours.inputs, columns[1:]):
        assert encoder.decode([row[:-1] for row in ours.rows(part, "valid")]) == list(texts)


@pytest.mark.parametrize(("folder", "header"), [("MRPC", "#1 String\t#2 String"), ("STS-B", "sentence1\tsentence2")])
def test_unlabelled_test_split_from_the_published_text(folder, header, tmp_path):
    lines = (TEXT / folder / "test.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    (tmp_path / "raw").mkdir()
    text = "".join(line.lstrip("\t") + "\n" for line in [header, *lines])
    (tmp_path / "raw" / "test.tsv").write_text(text, encoding="utf-8")
    ours = make(tmp_path, folder, "--raw", tmp_path / "raw", "--splits", "test")
    check_bytes(ours, folder, "test", 2, ())
    assert not list((ours / "label").glob("test*"))
