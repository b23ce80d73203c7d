"""fairseq's dictionaries: ``dict.txt`` has a symbol and its count in each line; ids 0 to 3 are always the same."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from urllib.parse import quote, unquote

from .errors import InputError

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
BOS, PAD, EOS, UNKNOWN = range(4)
FILLER = "madeupword"
MASK = "<mask>"  # the task adds it after the symbols of dict.txt
OVERWRITE = " #fairseq:overwrite"
ESCAPED = "\u2060"  # a sign of no width: a symbol that begins with it is a label with white space


def read_dictionary(path: Path) -> list[str]:
    """Return the symbols in the order of their ids; raise InputError for a file that fairseq would not read."""
    try:
        return list(_symbols(path, path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        reason = "is not UTF-8" if isinstance(error, ValueError) else f"cannot be read ({error.strerror})"
        raise InputError(f"{path} {reason}: take the dict.txt that came with the model") from None


@lru_cache(maxsize=4)
def _symbols(path: Path, text: str) -> tuple[str, ...]:
    """Parse the text of a dict.txt once, though a process looks at the same one several times."""
    lines = text.removesuffix("\n").split("\n") if text else []
    symbols, seen = list(SPECIAL), set(SPECIAL)
    for number, line in enumerate(lines, start=1):
        symbol, space, count = line.rstrip().replace(OVERWRITE, "").rpartition(" ")
        repeated = symbol in seen and OVERWRITE not in line
        if repeated or not space or "\0" in line or not (count.isascii() and count.isdigit()):
            what = f"{symbol!r} stands there a second time" if repeated else f"{line[:60]!r} is not 'symbol count'"
            raise InputError(f"{path} line {number}: {what}: take the dict.txt that came with the model")
        symbols.append(symbol)
        seen.add(symbol)
    return tuple(symbols)


def escape_label(label: str) -> str:
    """Return the symbol of a label: ``same%20topic``, as fairseq cuts lines at white space; else the label itself."""
    needed = re.search(rf"[\s\0]|^{ESCAPED}", label)
    return ESCAPED + re.sub(r"[\s\0%]", lambda sign: quote(sign[0]), label) if needed else label


def unescape_label(symbol: str) -> str:
    return unquote(symbol[1:]) if symbol.startswith(ESCAPED) else symbol


def label_dictionary(labels: Sequence[str], counts: Sequence[int]) -> str:
    """Return ``label/dict.txt`` as fairseq-preprocess writes it, for labels in the order of their ids."""
    fillers = -(len(SPECIAL) + len(labels)) % 8  # fairseq fills its dictionaries up to a multiple of 8
    lines = [f"{escape_label(label)} {count}\n" for label, count in zip(labels, counts)]
    return "".join(lines + [f"{FILLER}{number:04d} 0\n" for number in range(fillers)])


def read_labels(path: Path) -> list[str]:
    """Return the labels of a ``label/dict.txt`` in the order of their ids (from 4 on), without fairseq's fillers."""
    symbols = read_dictionary(path)[len(SPECIAL) :]
    return [*map(unescape_label, takewhile(lambda symbol: not symbol.startswith(FILLER), symbols))]


def by_frequency(counts: dict[str, int]) -> list[str]:
    """Return labels in fairseq's order: the most frequent first, equally frequent ones alphabetically."""
    return sorted(counts, key=lambda label: (-counts[label], label))
