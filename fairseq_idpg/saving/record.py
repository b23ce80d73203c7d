"""What a checkpoint records of the data that its model was trained on, so that other data is mapped onto it or refused.

Label ids follow the frequencies of one training set, a dictionary's ids one order of its symbols: both mean nothing
without the folder they come from. The record is the section "record" of ``model.kept``.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, get_type_hints

from fairseq.data import Dictionary

from preprocess.errors import escaped
from preprocess.tasks import counterparts

from ..errors import InputError
from .configuration import fits
from .tensors import EXTRA_STATE, FINGERPRINT

logger = logging.getLogger(__name__)
SECTION = "record"


@dataclass(frozen=True)
class Record:
    """Plain values; None where nothing is known."""

    task: str | None = None  # the name the data was preprocessed under
    regression: bool | None = None  # scores instead of classes
    labels: list[str] | None = None  # the classes in the order of the logits
    scale: float | None = None  # what the scores were divided by
    pairs: bool | None = None  # sentence pairs instead of single sentences
    tokens: dict[str, int | None] | None = None  # --init-token and, only for pairs, --separator-token
    prompt_position: int | None = None
    dictionary: str | None = None  # fingerprint of the symbols in the order of their ids
    bpe: str | None = None  # name of the encoder
    bpe_sha256: str | None = None  # fingerprint of its files
    vocab: str | None = None  # the folder where these were; they may have moved
    max_length: int | None = None  # tokens that were kept of a sentence; None: all
    vectors: dict[str, str] | None = None  # fingerprints of the files of word vectors behind M(x), by their names


TYPES = get_type_hints(Record)


def read_record(state: Any, source: str = "this checkpoint") -> Record:
    """Return a saved record without what a later version may have added; raise InputError for values of other types."""
    values = {name: state.get(name) for name in TYPES} if isinstance(state, Mapping) else {}
    damaged = [name for name, value in values.items() if not fits(value, TYPES[name])]
    # Outputs are multiplied by the scale: it is above 0.
    if damaged or not values or values["scale"] is not None and values["scale"] <= 0:
        raise InputError(f"the record of {source} is damaged ({', '.join(damaged) or 'scale'}): give another copy")
    return Record(**values)


def saved_record(tensors: Mapping[str, Any], source: str) -> Record | None:
    """Return the record among what a checkpoint holds under "model"; None in those of earlier versions."""
    extra = tensors.get(EXTRA_STATE)
    return read_record(extra[SECTION], source) if isinstance(extra, Mapping) and SECTION in extra else None


def recorded(state: dict[str, Any], what: str) -> Record:
    """Return what a checkpoint records of its data; raise InputError for one of an early version."""
    record = saved_record(state["model"], what)
    if record is None or FINGERPRINT not in state["model"] or not (record.regression or record.labels):
        raise InputError(
            f"{what} is of an earlier version, which recorded nothing of its data: predict for a folder of it with "
            "python -m fairseq_idpg.predict DATA-bin, or train it again"
        )
    return record


def symbols_fingerprint(dictionary: Dictionary) -> str:
    return hashlib.sha256("\n".join(dictionary.symbols).encode("utf-8")).hexdigest()


def listed(labels: list[str] | None) -> str:
    """Return label names for a message, the first few of many."""
    first = [escaped(label[:60]) for label in (labels or ["unknown"])[:8]]
    return ", ".join(first + ["..."] * (len(labels or ()) > 8))


def _differ(one: Record, other: Record, name: str) -> bool:
    values = getattr(one, name), getattr(other, name)
    return None not in values and values[0] != values[1]


def check_same_data(theirs: Record, ours: Record, data: str) -> None:
    """Raise InputError unless a model with the record ``theirs`` can read the folder ``data``, which has ``ours``."""
    difference = _difference(theirs, ours, data)
    if difference:
        raise InputError(difference)


def _difference(theirs: Record, ours: Record, data: str) -> str | None:
    """Return what keeps a model from reading a folder, and the remedy; None where nothing does."""
    if _differ(theirs, ours, "regression"):
        trained = "scores" if theirs.regression else f"classes ({listed(theirs.labels)})"
        remedy = f"{'give' if theirs.regression else 'leave out'} --regression-target, or give another checkpoint"
        return f"this checkpoint was trained on {trained}, and this run on {data} is not: {remedy}"
    if _differ(theirs, ours, "pairs"):
        trained, present = ("sentence pairs", "single sentences")[:: 1 if theirs.pairs else -1]
        remedy = f"give a folder of {trained}, or another checkpoint"
        return f"this checkpoint was trained on {trained}, and {data} has {present}: {remedy}"
    for option, token in (theirs.tokens or {}).items():
        own = (ours.tokens or theirs.tokens or {}).get(option)
        if own != token:
            remedy = f"leave {option} out" if token is None else f"give {option} {token}"
            return f"{option} is {own}, and this checkpoint was trained with {token}: {remedy}"
    for name, what in (("bpe", "--bpe"), ("dictionary", "dictionary"), ("bpe_sha256", "--vocab"), ("scale", "scale")):
        if _differ(theirs, ours, name):
            present, trained = (f"{getattr(each, name)!s:.12}" for each in (ours, theirs))
            return (
                f"the {what} of {data} ({present}) is not the one that this checkpoint was trained with ({trained}): "
                "preprocess the data with that one"
            )
    return None


def labels_here(theirs: Record, ours: Record, training: bool = False) -> list[str]:
    """Return a model's classes in the order of its logits, by the names that the folder gives them; [] for scores.

    Classes are the same if the table of tasks gives them one meaning or, for unknown tasks, if they have one name.
    Raise InputError where the folder's labels mean something else, unless ``training`` goes on with them.
    """
    names = theirs.labels or []
    try:
        return counterparts(theirs.task, names, ours.task, ours.labels or []) or names
    except InputError:
        if not training:
            raise
        return names


@dataclass
class KeptRecord:
    """The section "record": the data folder's, until a checkpoint's takes its place."""

    ours: Record  # what is known of the folder ``data`` and this run
    data: str
    follow: Callable[[list[str]], None] | None  # puts the folder's labels into the order of the checkpoint's classes
    training: bool  # the model goes on to be trained on this folder, so that the task's name is the folder's
    reads_vectors: bool = False  # M(x) is the folder's word vectors

    def __post_init__(self) -> None:
        self.of_model = self.ours

    def state_dict(self) -> dict[str, Any]:
        return asdict(self.of_model)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take a checkpoint's record over; raise InputError where this run cannot read its data as that does."""
        theirs = read_record(state)
        check_same_data(theirs, self.ours, self.data)
        digests = [sorted(record.vectors.values()) for record in (theirs, self.ours) if record.vectors]
        if self.reads_vectors and len(digests) == 2 and digests[0] != digests[1]:
            raise InputError(
                f"{self.data}/glove was made from {listed([*(self.ours.vectors or {})])}, and this checkpoint was "
                f"trained on the vectors of {listed([*(theirs.vectors or {})])} (by SHA-256): run python -m preprocess "
                "glove --overwrite with these"
            )
        if theirs.labels is not None and self.follow is not None:
            labels = labels_here(theirs, self.ours, self.training)
            self.follow(labels)
            theirs = replace(theirs, labels=labels) if self.training else theirs
        if not self.training and _differ(theirs, self.ours, "prompt_position"):
            logger.warning(
                f"--prompt-position {self.ours.prompt_position}: this checkpoint was trained with "
                f"{theirs.prompt_position}"
            )
        if not self.training and theirs.regression and theirs.scale is None and self.ours.scale is not None:
            logger.warning(
                "this checkpoint does not record what the scores of its training were divided by: its outputs are "
                f"multiplied by {self.ours.scale:g}, by which those of {self.data} are divided"
            )
        # The folder adds what only it knows. A model that trains on it belongs to this folder from now on.
        replaced = {"task", "prompt_position", "vocab"} if self.training else set()
        ours = {name: value for name, value in asdict(self.ours).items() if value is not None}
        added = {name: ours[name] for name in ours if name in replaced or getattr(theirs, name) is None}
        if self.training and self.ours.bpe is not None:
            added["max_length"] = self.ours.max_length  # None: the folder says that all tokens were kept
        self.of_model = replace(theirs, **added)
