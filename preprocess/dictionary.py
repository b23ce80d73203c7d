"""fairseq's dictionaries: ``dict.txt`` has a symbol and its count in each line; ids 0 to 3 are always the same."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

from .errors import DataError

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
BOS, PAD, EOS, UNKNOWN = range(4)
MULTIPLE = 8  # fairseq fills the dictionaries that it builds up to a multiple of this
FILLER = "madeupword"


def read_dictionary(path: Path) -> list[str]:
    """The symbols in the order of their ids, the four special ones first."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise DataError(f"{path} does not exist: name the folder of the model's dict.txt with --vocab") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8: take the dict.txt that came with the model") from None
    entries = [line.rstrip().replace(" #fairseq:overwrite", "").rpartition(" ") for line in lines]
    for number, (line, (_, _, count)) in enumerate(zip(lines, entries), start=1):
        if not count.isdigit() and line.rstrip():
            raise DataError(f"{path} line {number}: {line[:60]!r} is not 'symbol count': take the model's dict.txt")
    return [*SPECIAL, *(symbol for symbol, space, _ in entries if space)]


def label_dictionary(labels: Sequence[str], counts: Sequence[int]) -> str:
    """``label/dict.txt`` as fairseq-preprocess writes it, for labels in the order of their ids."""
    fillers = -(len(SPECIAL) + len(labels)) % MULTIPLE
    lines = [f"{label} {count}\n" for label, count in zip(labels, counts)]
    return "".join(lines + [f"{FILLER}{number:04d} 0\n" for number in range(fillers)])


def read_labels(path: Path) -> list[str]:
    """The labels of a ``label/dict.txt``, in the order of their ids (from 4 on)."""
    return [symbol for symbol in read_dictionary(path)[len(SPECIAL) :] if not symbol.startswith(FILLER)]


def by_frequency(counts: dict[str, int]) -> list[str]:
    """Labels as fairseq orders them: the most frequent first, equally frequent ones alphabetically."""
    return sorted(counts, key=lambda label: (-counts[label], label))
