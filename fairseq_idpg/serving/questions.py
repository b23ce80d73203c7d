"""What requests ask for."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from preprocess.readers import distinct

from ..errors import InputError
from ..inference.files import Text, check_filled, of_value

WORDS, MOST_WORDS = 5, 100


class Question(NamedTuple):
    """What is asked of some texts.

    Attributes:
        tasks: names of those that answer; None for all.
        prompts: give the prompt rows that each text gets, each with its layer and its ``words`` nearest words.
    """

    texts: list[Text]
    tasks: tuple[str, ...] | None = None
    prompts: bool = False
    words: int = WORDS

    @property
    def way(self) -> tuple[Any, ...]:
        """Equal where texts can be answered together."""
        return self[1:]


def text_name(number: int) -> str:
    """Of a text by its number, counted from 0, for errors."""
    return f"text {number + 1}"


def read_question(body: bytes, most_texts: int) -> Question:
    """A question out of JSON: an object with some of ``KEYS``, each text as in a line of a JSON file.

    Raises:
        InputError: it is something else, or has more texts than ``most_texts``.
    """
    try:
        asked = json.loads(body.decode(), object_pairs_hook=distinct, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body is not JSON ({error})") from None
    if not isinstance(asked, dict) or not asked.keys() <= KEYS.keys():
        raise InputError(f"the body {asked!r:.60} is no JSON object with some of {', '.join(KEYS)}")
    given = {key: value for key, value in asked.items() if value is not None}
    for key, value in {"texts": None, **given}.items():
        fits, remedy = KEYS[key]
        if not fits(value):
            raise InputError(f"{key} {value!r:.60}: give {remedy}")
    names = given.get("tasks")
    return Question(
        read_texts(given["texts"], most_texts),
        names if names is None else tuple(dict.fromkeys([names] if isinstance(names, str) else names)),
        given.get("prompts", False),
        given.get("words", WORDS),
    )


def are_names(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return isinstance(names, list) and bool(names) and all(isinstance(name, str) for name in names)


# key -> what its value must be, and in words
KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "texts": (lambda value: isinstance(value, list), '"texts": ["a sentence", ["first", "second"], ...]'),
    "tasks": (are_names, "the name of a task or a list of names, or leave it out for all"),
    "prompts": (lambda value: isinstance(value, bool), "true or false"),
    "words": (lambda value: type(value) is int and 1 <= value <= MOST_WORDS, f"1 to {MOST_WORDS} words"),
}


def refuse(name: str) -> None:
    """Raise ValueError for what Python adds to JSON."""
    raise ValueError(f"{name} is no number")


def read_texts(values: list[Any], most: int) -> list[Text]:
    if len(values) > most:
        raise InputError(f"{len(values)} texts are too many: give {most} at a time")
    texts = []
    for number, item in enumerate(values):
        try:
            texts.append(of_value(item))
            check_filled(texts[-1])
        except ValueError as error:
            raise InputError(f"{text_name(number)}: {error}") from None
    return texts
