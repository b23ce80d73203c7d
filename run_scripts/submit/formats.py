"""Answers as the text of a file that a benchmark takes.

Numbers are the benchmark's own, as they stand in its test file, and so is their order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

Number = tuple[int, ...]  # of an example; of an answer of MultiRC: the passage's, the question's, its own
LABELS: dict[str, Callable[[str], str | int]] = {"COPA.jsonl": int, "WSC.jsonl": str.capitalize}


def text_of(file: str, numbers: Sequence[Number], answers: Sequence[str]) -> str:
    """The file with an answer to each number.

    GLUE: a table with the header ``index  prediction``; SuperGLUE: JSON objects with ``idx`` and ``label``, which are
    texts (also "true" and "false", of WSC "True" and "False"), but for MultiRC and the choices of COPA.
    """
    pairs = list(zip(numbers, answers, strict=True))
    if file.endswith(".tsv"):
        return "".join(f"{number}\t{answer}\n" for number, answer in [("index", "prediction"), *_plain(pairs)])
    lines = _passages(pairs) if file == "MultiRC.jsonl" else _records(pairs, LABELS.get(file, str))
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def arity(file: str) -> int:
    """How many numbers an example has."""
    return 3 if file == "MultiRC.jsonl" else 1


def _plain(pairs: Iterable[tuple[Number, str]]) -> Iterable[tuple[int, str]]:
    return ((number, answer) for (number,), answer in pairs)


def _records(pairs: Iterable[tuple[Number, str]], label: Callable[[str], str | int]) -> Iterable[dict]:
    return ({"idx": number, "label": label(answer)} for number, answer in _plain(pairs))


def _passages(pairs: Iterable[tuple[Number, str]]) -> Iterable[dict]:
    """MultiRC: a line for each passage, which holds its questions, which hold their answers.

    Source: the sample submission as jiant-dev/jiant-dev#108 quotes it.
    """
    passages: dict[int, dict[int, list[dict]]] = {}
    for (passage, question, number), answer in pairs:
        answers = passages.setdefault(passage, {}).setdefault(question, [])
        answers.append({"idx": number, "label": int(answer)})
    for passage, questions in passages.items():
        listed = [{"idx": question, "answers": answers} for question, answers in questions.items()]
        yield {"idx": passage, "passage": {"questions": listed}}
