"""Examples that are answers to one question: ``DATA/question/SPLIT.tsv``, a line for each.

A line has the number of the example's question, counted from 0. Where an answer is a text (ReCoRD), three more fields
have its exact match and its F1 of words with the right answers, and the text. So a choice among the answers of a
question is scored without their texts.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class AnswerText(NamedTuple):
    """A text that answers a question; ``em``, ``f1``: from 0 to 1, or None where the right answers are unknown."""

    text: str
    em: float | None = None
    f1: float | None = None


@dataclass(frozen=True)
class Questions:
    """Which question each of N examples answers."""

    number: np.ndarray  # N, of the question
    em: np.ndarray | None = None  # N, agreement with the right answers, where these are known texts
    f1: np.ndarray | None = None
    texts: tuple[str, ...] | None = None  # the answers, where they are texts

    @property
    def count(self) -> int:
        return len(np.unique(self.number))


def question_file(split: str) -> str:
    """Return where the questions of a split are: "question/valid.tsv"."""
    return f"question/{split}.tsv"


def question_line(question: int, answer: AnswerText | None) -> str:
    """Return the line of an example; white space in a text becomes one space."""
    if answer is None:
        return f"{question}\n"
    agreement = ["" if value is None else str(value) for value in (answer.em, answer.f1)]
    return "\t".join([str(question), *agreement, " ".join(answer.text.split())]) + "\n"


def parse_questions(lines: Sequence[str]) -> Questions:
    """Return what ``question_line`` wrote; raise ValueError for anything else."""
    rows = [line.split("\t") for line in lines]
    columns = list(zip(*rows))
    if {len(row) for row in rows} not in ({1}, {4}) or not all(number.isdecimal() for number in columns[0]):
        raise ValueError("not the number of a question in each line")
    number = np.array(columns[0], dtype=np.int64)
    if len(columns) == 1:
        return Questions(number)
    em, f1 = (None if set(column) == {""} else np.array(column, dtype=np.float64) for column in columns[1:3])
    for values in (em, f1):
        if values is not None and not ((values >= 0) & (values <= 1)).all():
            raise ValueError("a score that is not from 0 to 1")
    return Questions(number, em, f1, tuple(columns[3]))


# --- agreement of texts, as ReCoRD's official evaluation has it (evaluate.py, after SQuAD's) -----------------------


def answer_text(text: str, right: Iterable[str] | None) -> AnswerText:
    """Return a text with its best agreement with the ``right`` ones; None: they are unknown."""
    if right is None:
        return AnswerText(text)
    words, others = words_of(text), [words_of(other) for other in right]
    return AnswerText(text, float(words in others), max((f1_of_words(words, other) for other in others), default=0.0))


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation and articles."""
    return ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split()


def f1_of_words(one: Sequence[str], other: Sequence[str]) -> float:
    """Return 2 x shared / (all words of both); a word is shared as often as both have it."""
    shared = sum((Counter(one) & Counter(other)).values())
    return 2 * shared / (len(one) + len(other)) if shared else 0.0
