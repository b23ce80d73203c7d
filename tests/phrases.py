"""Text folders for --predict-with mlm: a small GPT-2 vocabulary in which some words are one token behind a space."""

from collections.abc import Sequence
from pathlib import Path

from tests.folders import write_backbone
from tests.preprocess import commands

WORDS = ["great", "terrible", "Yes", "No", "Maybe", "It", "was"]
TEXTS = ["it is good", "Yes it was", "no, never again", "great"]
SINGLES = [(f"{TEXTS[i % 4]} {i}", str(i % 2)) for i in range(24)]
PAIRS = [(TEXTS[i % 4], f"{TEXTS[i % 3]} {i}", ["entailment", "not_entailment"][i % 2]) for i in range(24)]


def write_vocab(folder: Path) -> Path:
    """GPT-2's bytes, and merges that make each of WORDS one piece with the space in front of it."""
    merges = dict.fromkeys(("Ġ" + word[:end], word[end]) for word in WORDS for end in range(len(word)))
    return commands.write_vocab(folder, merges)


def write_texts(place: Path, name: str, rows: Sequence[tuple[str, ...]]) -> Path:
    """A binarized folder of rows of one or two sentences and a label, as train and valid."""
    splits = dict.fromkeys(("train", "valid"), rows)
    return commands.make_folder(place, name, splits, "--vocab", write_vocab(place / "vocab"))


def write_language_model(place: Path, **size) -> Path:
    words = len((place / "vocab" / "dict.txt").read_text().splitlines())
    return write_backbone(place / "model.pt", words=words, **size)
