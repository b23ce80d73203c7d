"""``--verbalisers``: the word of each class, in whose place ``<mask>`` stands in the template.

What LPT's released code takes for its ten tasks is the default of a task of that name (github.com/xyltt/LPT,
encoder-only/data/process.py). Differs from it in: CR, which it does not have, is read as MR.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary

from preprocess.dictionary import MASK
from preprocess.encoders.base import Encoder

from ..errors import InputError
from ..models.config import predicts_words
from ..models.verbaliser_head import VerbaliserHead
from ..saving.record import Record, listed
from .labels import LabelOrder
from .positions import check_template_position
from .template import Template, encode_template


@dataclass(frozen=True)
class Published:
    """``words``: class -> its word."""

    template: str
    words: dict[str, str]


SENTIMENT = Published("{0} . It was <mask> .", {"0": "terrible", "1": "great"})
SUBJECTIVITY = Published("{0} . It was <mask> .", {"0": "subjective", "1": "objective"})
QUESTIONS = ("Description", "Entity", "Expression", "Human", "Location", "Number")
ENTAILMENT = Published("{0} ? <mask> , {1}", {"entailment": "Yes", "not_entailment": "No"})
INFERENCE = Published("{0} ? <mask> , {1}", {"entailment": "Yes", "neutral": "Maybe", "contradiction": "No"})

PUBLISHED = {
    **dict.fromkeys(("sst-2", "mr", "cr", "mpqa"), SENTIMENT),
    "subj": SUBJECTIVITY,
    "trec": Published("<mask> : {0}", {str(number): word for number, word in enumerate(QUESTIONS)}),
    **dict.fromkeys(("qnli", "rte"), ENTAILMENT),
    "mnli": INFERENCE,
    "mrpc": Published("{0} ? <mask> , {1}", {"0": "No", "1": "Yes"}),
    "qqp": Published("{0} <mask> , {1}", {"0": "No", "1": "Yes"}),
}
UNKNOWN = Published("", {})


class Phrasing(NamedTuple):
    """How a task is asked of a language model.

    ``words``: token of each class's word, in the order of the classes.
    """

    template: Template
    words: list[int]


class ClassWords:
    """The words of a new run in the order of the model's classes: the folder's, until a checkpoint brings another.

    Args:
        cfg: the model's options, whose verbalisers every checkpoint keeps.
        labels: of the folder.
        head: predicts the words.
    """

    def __init__(self, cfg: Any, labels: LabelOrder, head: VerbaliserHead):
        self.cfg = cfg
        self.labels = labels
        self.head = head
        self.words = dict(zip(labels.names, cfg.verbalisers.split(",")))
        self.tokens = dict(zip(labels.names, head.words.tolist()))

    def follow(self, names: list[str]) -> None:
        """Takes the order of a checkpoint's classes, see ``LabelOrder``."""
        self.labels.follow(names)
        self.cfg.verbalisers = ",".join(self.words[name] for name in names)
        self.head.words.copy_(torch.tensor([self.tokens[name] for name in names]))


def complete_phrasing(cfg: Any, task_cfg: Any, record: Record) -> None:
    """Puts template and verbalisers of ``--predict-with mlm`` into the model's options ``cfg``, in place.

    The verbalisers become one word for each class, in the order of the classes.

    Args:
        record: of the data.

    Raises:
        InputError: an option has no effect; there is no template for this data; not one word for each class.
    """
    if not predicts_words(cfg):
        for name in ("template", "verbalisers"):
            if getattr(cfg, name, None) is not None:
                raise InputError(f"--{name} has no effect with --predict-with head: leave it out or give mlm")
        return
    if task_cfg.regression_target:
        raise InputError("--predict-with mlm is for classes, and --regression-target for scores: leave one of them out")
    known = PUBLISHED.get((record.task or "").lower(), UNKNOWN)
    labels = record.labels or []
    if known is UNKNOWN and None in (cfg.template, cfg.verbalisers):
        raise InputError(
            f"--predict-with mlm: {task_cfg.data} is of no task with a published template ({', '.join(PUBLISHED)}): "
            'give --template, such as "{0} It was <mask> .", and --verbalisers, a word for each class'
        )
    if cfg.verbalisers is None and set(labels) != set(known.words):
        raise InputError(
            f"--predict-with mlm: {task_cfg.data} has the labels {listed(labels)}, and the published verbalisers of "
            f"{record.task} are for {listed([*known.words])}: give --verbalisers, a word for each class"
        )
    if cfg.verbalisers is None:
        cfg.verbalisers = ",".join(known.words[label] for label in labels)
    else:
        cfg.verbalisers = ",".join(words_of_classes(cfg.verbalisers, labels, task_cfg.num_classes))
    cfg.template = cfg.template or known.template


def find_phrasing(cfg: Any, task_cfg: Any, dictionary: Dictionary, pairs: bool, encoder: Encoder) -> Phrasing:
    """The tokens of the template and the words in ``cfg``, the model's options once they are complete.

    Raises:
        InputError: they do not fit the examples or the encoder.
    """
    check_template_position(task_cfg.prompt_position)
    mask, start, end = dictionary.index(MASK), task_cfg.init_token, dictionary.eos()
    template = encode_template(cfg.template, pairs, encoder, mask, start, end)
    return Phrasing(template, verbaliser_tokens(cfg.verbalisers, encoder))


def words_of_classes(text: str, labels: list[str], count: int) -> list[str]:
    """``bad,good`` in the order of the classes, or ``1=good,0=bad`` -> a word for each class.

    Args:
        labels: the classes; empty where the data does not name them.
        count: of the classes.

    Raises:
        InputError: not one word for each class.
    """
    given = [part.strip() for part in text.split(",")]
    if all("=" in part.strip("=") for part in given):
        named = dict(part.rsplit("=", 1) for part in given)
        if sorted(named) != sorted(labels) or len(named) != len(given):
            raise InputError(f"--verbalisers {text}: name each class once, {listed(labels)}, as 0=bad,1=good")
        given = [named[label] for label in labels]
    if len(given) != count or not all(given):
        raise InputError(f"--verbalisers {text}: give a word for each of the {count} classes ({listed(labels)})")
    return given


def verbaliser_tokens(text: str, encoder: Encoder) -> list[int]:
    """Token of each of the words ``bad,good``, as it is encoded behind a space.

    Raises:
        InputError: a word is none or several, or that of two classes.
    """
    tokens: dict[int, str] = {}
    for word in text.split(","):
        try:
            ids = encoder.encode_part(f" {word}")
        except InputError as error:
            raise InputError(f"--verbalisers {text}: {error}") from None
        if len(ids) != 1:
            pieces = ", ".join(repr(piece) for piece in encoder.decode([[number] for number in ids]))
            raise InputError(f"--verbalisers {text}: {word!r} is {len(ids)} tokens ({pieces}): use words of one token")
        if ids[0] in tokens:
            raise InputError(
                f"--verbalisers {text}: {tokens[ids[0]]!r} and {word!r} are one token: use different words"
            )
        tokens[ids[0]] = word
    return list(tokens)
