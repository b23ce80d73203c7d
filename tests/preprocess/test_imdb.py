"""IMDB from the folders of aclImdb, a file for each review, and from the hub."""

from __future__ import annotations

import pytest

from preprocess.checksums import content_digest
from tests.preprocess.commands import install_hub
from tests.preprocess.test_hub import FakeDataset, FakeLabels

IMDB = {  # README of aclImdb: ID_RATING.txt below pos and neg, in train and test; unsup has ratings of 0
    "train/neg/0_3.txt": "Dull.<br /><br />Long.",
    "train/neg/10_1.txt": "Two\tcolumns,\nand two lines.\n",
    "train/pos/0_9.txt": "A café, in a film.",
    "train/pos/1_7.txt": "",
    "train/unsup/0_0.txt": "Whatever.",
    "train/urls_pos.txt": "http://www.imdb.com/title/tt0453418/usercomments",
    "train/labeledBow.feat": "9 0:9",
    "test/neg/0_2.txt": "No. " * 600,
    "test/pos/0_10.txt": "Yes.",
}


@pytest.mark.parametrize("place", ["aclImdb", "."])
def test_reviews_of_imdb(commands, place):
    for name, text in IMDB.items():
        commands.write(f"{place}/{name}", text)
    data = commands.ok("imdb", "--raw", commands.raw, folder="IMDB-bin")
    assert commands.texts(data, "train") == [
        *("Dull.<br /><br />Long.", "Two\tcolumns,\nand two lines.", "A café, in a film.", "")
    ]
    assert commands.labels(data, "train") == ["neg", "neg", "pos", "pos"] and data.label_names == ["neg", "pos"]
    assert commands.texts(data, "valid") == commands.texts(data, "test") and commands.labels(data, "valid")[1] == "pos"


def test_reviews_that_are_too_long_are_counted_and_cut_on_request(commands):
    for name, text in IMDB.items():
        commands.write(f"aclImdb/{name}", text)

    def of_valid():
        rows = [line.split() for line in commands.capsys.readouterr().out.splitlines()]
        header, values = (next(row for row in rows if row[:1] == [name]) for name in ("split", "valid"))
        counts = dict(zip(header, values))
        return counts[">512"], counts["truncated"]

    data = commands.ok("IMDB", "--raw", commands.raw)
    assert of_valid() == ("1", "0") and len(data.rows("input0", "valid")[0]) == 4 * 600  # the last space is none
    data = commands.ok("IMDB", "--raw", commands.raw, "--max-length", 256, "--overwrite")
    assert of_valid() == ("0", "1") and len(data.rows("input0", "valid")[0]) == 256 + 1


def test_imdb_from_the_hub_is_the_same_folder(commands, monkeypatch):
    """Features of stanfordnlp/imdb: text, label (neg, pos); its splits are train, test and unsupervised."""
    for name, text in IMDB.items():
        commands.write(f"aclImdb/{name}", text.rstrip("\n"))
    ours = commands.ok("IMDB", "--raw", commands.raw)
    splits = {split: FakeDataset() for split in ("train", "test")}
    for name, text in IMDB.items():
        split, label, *rest = name.split("/")
        if rest and label != "unsup":
            splits[split].append({"text": text.rstrip("\n"), "label": FakeLabels.names.index(label)})
    install_hub(monkeypatch, lambda path, config, split: {"stanfordnlp/imdb": splits}[path][split])
    options = ["--splits", "train=train", "valid=test", "test=test", "--text-columns", "text", "--overwrite"]
    before = content_digest(ours.path)
    assert content_digest(commands.ok("IMDB", "--from-hub", "stanfordnlp/imdb", *options).path) == before
