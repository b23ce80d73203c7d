"""Texts on which tokenizers differ, and how the tests ask an encoder."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from preprocess.encoders import Encoder, load_encoder
from preprocess.errors import InputError

TRICKY = [
    "the cats",
    "",
    " \t ",
    "  the \t  cat" + " " * 300 + "the ",
    "\x00the\x01 c\x7fat \x1b[0m",
    "\x00\x01",
    "😀 the😀 👩‍👧 🇩🇪",
    "café CAFÉ cafe\u0301 naïve Å İ ß",
    "中文字 日本 the字",
    "\"quoted\" 'single' “curly” don't...",
    "[SEP] [MASK]the[CLS] [UNK] [unused0]",
    "##ing the ##s ## ▁the ▁",
    "x" * 100,
    "x" * 101,
    "the " * 3000,
    "a\u2028b\u00a0c\u3000d\u200be\u00adf\ufeffg",
    "½ ™ ﬁ ℝ ١",
]
XLMR_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
LITERAL_XLMR = "".join(XLMR_SPECIAL) + " the </s> <mask>cat<s>"


def ids_of(encoder: Encoder, lines: Sequence[str]) -> list[list[int]]:
    """Rows of ids without their ``</s>``."""
    ids, lengths = encoder.encode(lines)
    rows = np.split(ids, np.cumsum(lengths)[:-1])
    assert len(rows) == len(lines) and all(row[-1] == 2 for row in rows)
    return [row[:-1].tolist() for row in rows]


def symbols_of(encoder: Encoder, line: str) -> list[str]:
    return [encoder.symbols[number] for number in ids_of(encoder, [line])[0]]


def complaint(bpe: str, folder: Path, line: str = "") -> str:
    """The one line with which reading the folder, or else encoding the line, is refused."""
    with pytest.raises(InputError) as caught:
        load_encoder(bpe, folder).encode([line])
    message = str(caught.value)
    assert "\n" not in message and str(folder) in message
    return message
