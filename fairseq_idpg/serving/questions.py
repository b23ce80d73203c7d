"""What requests ask for."""

import json
from typing import Any, NamedTuple

from preprocess.readers import distinct

from ..errors import InputError
from ..inference.prediction import Text
from ..inference.reading import check_filled, of_value

KEYS = ("texts", "tasks", "prompts", "words")
MOST_WORDS = 100


class Question(NamedTuple):
    """What is asked of some texts.

    Attributes:
        tasks: names of those that answer; None for all.
        prompts: give the prompt rows that each text gets, each with its layer and its ``words`` nearest words.
    """

    texts: list[Text]
    tasks: tuple[str, ...] | None = None
    prompts: bool = False
    words: int = 5

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
    if not isinstance(asked, dict):
        raise InputError('the body is no JSON object: give {"texts": ["a sentence", ...]}')
    for key in asked:
        if key not in KEYS:
            raise InputError(f"the key {key!r:.60} is unknown: give some of {', '.join(KEYS)}")
    given = {key: value for key, value in asked.items() if value is not None}
    if "words" in given and not given.get("prompts"):
        raise InputError("words has no effect without prompts: give that too, or leave it out")
    return Question(
        read_texts(given.get("texts"), most_texts),
        read_tasks(given["tasks"]) if "tasks" in given else None,
        read_prompts(given.get("prompts", False)),
        read_words(given.get("words", Question._field_defaults["words"])),
    )


def refuse(name: str) -> None:
    """ValueError for what Python adds to JSON."""
    raise ValueError(f"{name} is no number")


def read_texts(value: Any, most: int) -> list[Text]:
    if not isinstance(value, list):
        raise InputError('texts is missing or no list: give "texts": ["a sentence", ["first", "second"], ...]')
    if len(value) > most:
        raise InputError(f"{len(value)} texts are too many: give {most} at a time")
    texts = []
    for number, item in enumerate(value):
        try:
            texts.append(of_value(item))
            check_filled(texts[-1])
        except ValueError as error:
            raise InputError(f"{text_name(number)}: {error}") from None
    return texts


def read_tasks(value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"tasks {value!r:.60} is no list of names: give one, or leave it out for all tasks")
    return tuple(dict.fromkeys(names))


def read_prompts(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"prompts {value!r:.60}: give true or false")
    return value


def read_words(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_WORDS:
        raise InputError(f"words {value!r:.60} is no number of words: give 1 to {MOST_WORDS}")
    return value
