"""The labels of a data set, as a binarized folder holds them."""

import re
import unicodedata
from array import array
from collections.abc import Collection, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import numpy as np

from .dictionary import EOS, FILLER, MASK, SPECIAL, by_frequency, label_dictionary
from .errors import InputError, shown
from .indexed import IndexedWriter
from .readers import Row, is_text

NUMBER = re.compile(r"[+-]?\d+(\.\d*)?")
SHOWN = 10  # classes in a line about them


class Labels:
    """The labels of a data set: classes, or scores that are divided by ``scale``.

    The classes are ``names``, or else those of the training split. With ``keep_order`` their ids follow ``names``;
    else the most frequent in the training split come first.
    """

    def __init__(self, names: Sequence[str] | None = None, scale: float | None = None, keep_order: bool = False):
        for name in names or ():
            check_name(name, "--labels")
        self.names = names
        self.keep_order = keep_order
        self.scale = scale
        self.codes: dict[str, int] = {name: code for code, name in enumerate(names or ())}
        self.spellings: dict[str | Decimal, str] = {}  # of the training split's classes, by ``comparable``
        self.splits: dict[str, array] = {}

    def add(self, split: str, source: str, rows: Sequence[Row]) -> None:
        """Add the labels of the next rows of a split, read from ``source``; raise InputError for an impossible one."""
        values = self.splits.setdefault(split, array("i" if self.scale is None else "d"))
        for row in rows:
            where = f"{source} line {row.line}"
            if row.label is not None and self.scale is not None:
                values.append(self._score(where, row.label))
            elif row.label is not None:
                values.append(self._code(split, where, row.label))

    def _code(self, split: str, where: str, label: str) -> int:
        if label not in self.codes:
            check_name(label, where)
            if self.names is not None or not split.startswith("train"):
                raise unknown_label(where, label, self.codes, own_data=self.names is None or self.keep_order)
            first = self.spellings.setdefault(comparable(label), label)
            if first != label:
                remedy = f"write both alike, or name both classes with --labels{or_scores(label)}"
                raise InputError(f"{where}: label {label!a} is {first!a} in another spelling: {remedy}")
            self.codes[label] = len(self.codes)
        return self.codes[label]

    def _score(self, where: str, text: str) -> float:
        with suppress(ValueError):
            score = float(text) / (self.scale or 1)
            if np.isfinite(score) and "_" not in text:  # Python reads 4_5 as 45
                return score
        raise InputError(f"{where}: score {text!r} is not a finite number: correct the line")

    def write(self, folder: Path) -> None:
        """Write ``label/``: dict.txt and an id for each example, or SPLIT.label with a score in each line."""
        folder.mkdir()
        labelled = {split: np.asarray(values) for split, values in self.splits.items() if len(values)}
        if self.scale is not None:
            for split, scores in labelled.items():
                digits = score_digits(scores)
                (folder / f"{split}.label").write_text("".join(f"{score:.{digits}g}\n" for score in scores))
            return
        counts = self.class_counts()
        order = list(counts)
        (folder / "dict.txt").write_text(label_dictionary(order, list(counts.values())), encoding="utf-8")
        ids = np.asarray([len(SPECIAL) + order.index(name) for name in self.codes], np.int32)
        for split, codes in labelled.items():
            with IndexedWriter(folder / split, len(SPECIAL) + len(order)) as writer:
                rows = np.column_stack([ids[codes], np.full_like(codes, EOS)])
                writer.write(rows.ravel(), np.full_like(codes, 2))

    def class_counts(self) -> dict[str, int]:
        """Return the training examples of each class, in the order of the ids."""
        codes = np.asarray(self.splits.get("train", []), int)
        counts = dict(zip(self.codes, np.bincount(codes, minlength=len(self.codes)).tolist()))
        by_id = self.codes if self.keep_order or not len(codes) else by_frequency(counts)
        return {name: counts[name] for name in by_id}

    def described(self) -> list[str]:
        """Return a line about the training split's labels, and one for each split without labels."""
        none = [f"labels of {split}: none" for split, values in self.splits.items() if not values]
        trained = self.splits.get("train")
        if not trained:
            return none
        if self.scale is not None:
            return [f"labels of train: {min(trained):g} to {max(trained):g}", *none]
        counts = self.class_counts()
        first = "; ".join(f"{shown(name)}: {count:,}" for name, count in list(counts.items())[:SHOWN])
        rest = f"; and {len(counts) - SHOWN:,} classes more" if len(counts) > SHOWN else ""
        if rest and all(map(NUMBER.fullmatch, counts)):
            rest += "; if these are scores, give --regression"
        # a header that was read as an example is the first label, and no other example has it
        header = next(iter(self.codes), None) if not self.keep_order else None
        if header is not None and counts[header] == 1 and len(counts) > 2:
            rest += f"; if {shown(header)} is from a header, leave --no-header out"
        return [f"labels of train: {first}{rest}", *none]


def unknown_label(where: str, label: str, known: Collection[str], own_data: bool = False) -> InputError:
    """Return the error for a label that is not one of the ``known`` classes."""
    names = ", ".join(list(known)[:SHOWN]) or "none, as no training split names the classes"
    names += f" and {len(known) - SHOWN:,} more" if len(known) > SHOWN else ""
    remedy = f", or name all classes with --labels{or_scores(label)}" if own_data else ""
    return InputError(f"{where}: label {label!r} is unknown (known: {names}): correct it{remedy}")


def or_scores(label: str) -> str:
    return ", or give --regression if labels are scores" if NUMBER.fullmatch(label) else ""


def comparable(label: str) -> str | Decimal:
    """Return the same for all spellings of a label: 1 and 1.0; Yes and yes; one space or two; an accent as a sign."""
    label = " ".join(label.split())
    return Decimal(label) if NUMBER.fullmatch(label) else unicodedata.normalize("NFC", label).casefold()


def score_digits(scores: np.ndarray) -> int:
    """Return 6, as in the published folders, or more where scores lie close together for their size."""
    spread = np.ptp(scores)
    for digits in range(6, 17):
        written = np.array([float(f"{score:.{digits}g}") for score in scores])
        if spread == 0 or np.abs(written - scores).max() <= 1e-5 * spread:
            return digits
    return 17


def check_name(label: str, where: str) -> None:
    """Raise InputError unless label/dict.txt can hold a label; ``where`` names its place."""
    if not label:
        reason = "is empty: fill in the label, or leave the line out"
    elif label != label.strip() or not is_text(label):
        reason = "begins or ends with white space, or has half a character: give the class another name"
    elif label in SPECIAL or label == MASK or label.startswith(FILLER):
        reason = "is a name that fairseq keeps for itself: give the class another one"
    else:
        return
    raise InputError(f"{where}: label {label!r} {reason}")
