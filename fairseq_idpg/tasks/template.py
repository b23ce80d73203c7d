"""``--predict-with mlm``: the sentences of an example among words of a text, and the word of each class.

    {0} ? <mask> , {1}   ->   <s> A ? <mask> , B </s>

Words and signs of a ``--template`` are encoded as the data is, in the place where they stand: GPT-2's encoding has
other tokens behind a space than at the beginning of a text, for the first word of B, too. Only a sign without a space
between it and a sentence may differ from the encoded whole, which may have both in one token. ``--verbalisers`` names
the word of each class, which ``<mask>`` stands for.

Source: LPT's released code (github.com/xyltt/LPT), which writes templates into the text and then encodes that. Its
templates and words for ten tasks (encoder-only/data/process.py) are the defaults here. Differs from it in: CR, which it
does not have, is read as MR.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from preprocess.dictionary import MASK
from preprocess.encoders import Encoder

from ..errors import InputError
from ..models.config import predicts_words
from ..models.heads import VerbaliserHead
from ..saving.record import Record, listed
from .folder import LabelOrder
from .positions import Lengths, Shortener, check_position

SPECIAL = ("{1}", "<s>", "</s>", "<pad>", "<unk>", "{", "}")  # may not stand in the words of a template
PIECES = re.compile(r"(\{0\}|\{1\}|<mask>)")


@dataclass(frozen=True)
class Template:
    """A template in tokens."""

    parts: tuple[int | tuple[int, ...], ...]  # the number of a sentence, or tokens; ``<mask>`` is a part by itself
    mask_part: int  # which part is ``<mask>``
    spaced: tuple[int, ...]  # the sentences that stand behind a space
    behind_space: Callable[[Sequence[int]], list[int]]  # tokens of a sentence -> its tokens behind a space
    start: int  # <s>
    end: int  # </s>

    def place(self, number: int, sentence: Tensor) -> Tensor:
        """Return the tokens of the sentence ``number`` in its place, given those it has alone, without ``</s>``."""
        if number not in self.spaced:
            return sentence
        return torch.tensor(self.behind_space(sentence.tolist()), dtype=sentence.dtype)

    def join(self, placed: Sequence[Tensor]) -> Tensor:
        """Return the tokens of an example, ``<s>`` to ``</s>``; ``placed``: its sentences, cut to the room there is."""
        new = placed[0].new_tensor
        parts = [placed[part] if isinstance(part, int) else new(part) for part in self.parts]
        return torch.cat([new([self.start]), *parts, new([self.end])])

    def mask_index(self, lengths: Sequence[Any]) -> Any:
        """Return the index of ``<mask>`` beside sentences of these lengths, numbers or arrays of them."""
        before = self.parts[: self.mask_part]
        return 1 + sum(lengths[part] if isinstance(part, int) else len(part) for part in before)

    @property
    def words(self) -> int:
        """The tokens of an example besides those of its sentences, ``<s>`` and ``</s>`` counted."""
        return 2 + sum(len(part) for part in self.parts if not isinstance(part, int))


def encode_template(text: str, pairs: bool, encoder: Encoder, mask: int, start: int, end: int) -> Template:
    """Return the template of ``--template``, for single sentences or ``pairs``; the last three are special tokens.

    Raise InputError unless ``<mask>`` and each sentence stand in it once, without other special signs, and its words
    can be encoded.
    """
    pieces = [piece for piece in PIECES.split(text.strip()) if piece]
    wanted = [MASK, "{0}", *(["{1}"] if pairs else [])]
    plain = "".join(piece for piece in pieces if piece not in wanted)
    wrong = [name for name in wanted if pieces.count(name) != 1] + [sign for sign in SPECIAL if sign in plain]
    if wrong:
        raise InputError(
            f"--template {text} has {text.count(wrong[0]) or 'no'} {wrong[0]}: give one {' and '.join(wanted)} in text"
        )
    parts: list[int | tuple[int, ...]] = []
    spaced = []
    with naming(f"--template {text}"):
        for previous, piece in zip(["", *pieces], pieces):
            if piece == MASK:
                parts.append((mask,))
            elif PIECES.fullmatch(piece):
                parts.append(int(piece[1]))
                spaced += [int(piece[1])] if previous[-1:].isspace() else []
            elif piece.strip():
                parts.append(tuple(encoder.encode_part(piece) if parts else encoder.encode_part(piece.lstrip(), "")))
    moved = sorted(spaced) if type(encoder).behind_space is not Encoder.behind_space else ()
    return Template(tuple(parts), parts.index((mask,)), tuple(moved), encoder.behind_space, start, end)


@contextlib.contextmanager
def naming(option: str) -> Iterator[None]:
    """Put the option in front of an encoder's error."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{option}: {error}") from None


class Phrased(Shortener):
    """Puts the sentences of each example into a template, cut to the room that its words leave.

    ``alone``: N lengths of each sentence in the data; ``shorten`` has the lengths in their places, and cuts these.
    """

    def __init__(self, template: Template, alone: Lengths, shorten: Shortener):
        super().__init__(**vars(shorten))
        self.template = template
        self.alone = alone

    @property
    def words(self) -> int:
        return self.template.words

    @property
    def arrangement(self) -> list[Any]:
        return [*super().arrangement, self.template.parts, self.template.spaced]

    @property
    def mask_index(self) -> np.ndarray:
        """N, the index of ``<mask>`` in each example."""
        return self.template.mask_index(self.kept)

    def __call__(self, tokens: Tensor, index: int) -> Tensor:
        """Return the example's tokens, given ``<s> A </s> [</s>] B </s>``."""
        # The sentences get their tokens behind a space, are cut as any others are, and then join the template.
        alone = [tokens[start : start + length] for start, length in self.spans(self.alone, index)]
        placed = [self.template.place(number, sentence) for number, sentence in enumerate(alone)]
        between = tokens.new_full((self.separators if len(placed) == 2 else 0,), self.template.end)
        cut = super().__call__(torch.cat([tokens[:1], placed[0], between, *placed[1:], tokens[-1:]]), index)
        return self.template.join([cut[start : start + length] for start, length in self.spans(self.kept, index)])


def in_places(template: Template, own: Lengths, orders: Sequence[Sequence[Any]]) -> Lengths:
    """Return the lengths of sentences in their places in a template, given their ``own`` lengths alone.

    ``orders``: a dataset of sentences, closed by ``</s>``, for each place; then, for exchanged pairs, the same in the
    other order.
    """
    lengths = list(own)
    for number in template.spaced:
        rows = (order[number][i][:-1] for order in orders for i in range(len(order[number])))
        lengths[number] = np.asarray([len(template.place(number, row)) for row in rows], np.int64)
    return lengths


class Published(NamedTuple):
    template: str
    words: dict[str, str]  # class -> its word


SENTIMENT = Published("{0} . It was <mask> .", {"0": "terrible", "1": "great"})
QUESTIONS = ("Description", "Entity", "Expression", "Human", "Location", "Number")
ENTAILMENT = Published("{0} ? <mask> , {1}", {"entailment": "Yes", "not_entailment": "No"})
PUBLISHED = {
    **dict.fromkeys(("sst-2", "mr", "cr", "mpqa"), SENTIMENT),
    "subj": Published(SENTIMENT.template, {"0": "subjective", "1": "objective"}),
    "trec": Published("<mask> : {0}", {str(number): word for number, word in enumerate(QUESTIONS)}),
    **dict.fromkeys(("qnli", "rte"), ENTAILMENT),
    "mnli": Published(ENTAILMENT.template, {"entailment": "Yes", "neutral": "Maybe", "contradiction": "No"}),
    "mrpc": Published(ENTAILMENT.template, {"0": "No", "1": "Yes"}),
    "qqp": Published("{0} <mask> , {1}", {"0": "No", "1": "Yes"}),
}


def ordered_words(cfg: Any, labels: LabelOrder, head: VerbaliserHead) -> Callable[[list[str]], None]:
    """Return what puts the words of a new run into the order of a checkpoint's classes, see ``LabelOrder``."""
    words = dict(zip(labels.names, zip(cfg.verbalisers.split(","), head.words.tolist())))

    def take_order(names: list[str]) -> None:
        labels.take_order(names)
        texts, tokens = zip(*(words[name] for name in names))
        cfg.verbalisers = ",".join(texts)  # every checkpoint keeps the model's options
        head.words.copy_(torch.tensor(tokens))

    return take_order


def complete_phrasing(cfg: Any, task_cfg: Any, record: Record) -> None:
    """Put template and verbalisers of ``--predict-with mlm`` into the model's options ``cfg``, in place.

    Verbalisers become one word for each class, in the order of the classes. Raise InputError where an option has no
    effect, this data has no template, or a class has no word.
    """
    if not predicts_words(cfg):
        unused = [name for name in ("template", "verbalisers") if getattr(cfg, name, None) is not None]
        if unused:
            raise InputError(f"--{unused[0]} has no effect with --predict-with head: leave it out or give mlm")
        return
    if task_cfg.regression_target:
        raise InputError("--predict-with mlm is for classes, and --regression-target for scores: leave one of them out")
    published = PUBLISHED.get((record.task or "").lower(), Published("", {}))
    labels = record.labels or []
    if not (cfg.template or published.template) or cfg.verbalisers is None and set(labels) != set(published.words):
        raise InputError(
            f"--predict-with mlm: LPT has no template for the task and the labels of {task_cfg.data} "
            f"({listed(labels)}), only for {', '.join(PUBLISHED)}: give --template, such as "
            '"{0} It was <mask> .", and --verbalisers, a word for each class'
        )
    if cfg.verbalisers is None:
        cfg.verbalisers = ",".join(published.words[label] for label in labels)
    else:
        cfg.verbalisers = ",".join(words_of_classes(cfg.verbalisers, labels, task_cfg.num_classes))
    cfg.template = cfg.template or published.template


def find_phrasing(
    cfg: Any, task_cfg: Any, dictionary: Dictionary, pairs: bool, encoder: Encoder
) -> tuple[Template, list[int]]:
    """Return the template of the completed options ``cfg`` of a model, and the token of each class's word."""
    check_position(task_cfg.prompt_position, pairs, template=True)
    mask, start, end = dictionary.index(MASK), task_cfg.init_token, dictionary.eos()
    template = encode_template(cfg.template, pairs, encoder, mask, start, end)
    return template, verbaliser_tokens(cfg.verbalisers, encoder)


def words_of_classes(text: str, labels: list[str], count: int) -> list[str]:
    """Return a word for each class, given ``bad,good`` in their order or ``1=good,0=bad``; ``labels``: perhaps none."""
    words = [part.strip() for part in text.split(",")]
    if all("=" in part.strip("=") for part in words):
        named = dict(part.rsplit("=", 1) for part in words)
        once = sorted(named) == sorted(labels) and len(named) == len(words)
        words = [named[label] for label in labels] if once else []
    if len(words) != count or not all(words):
        raise InputError(
            f"--verbalisers {text}: give {count} words, in the order of {listed(labels)} or as 0=bad,1=good"
        )
    return words


def verbaliser_tokens(text: str, encoder: Encoder) -> list[int]:
    """Return the token of each word of ``bad,good`` behind a space; raise InputError unless each has another one."""
    tokens: dict[int, str] = {}
    for word in text.split(","):
        with naming(f"--verbalisers {text}"):
            ids = encoder.encode_part(f" {word}")
        if len(ids) != 1 or ids[0] in tokens:
            pieces = ", ".join(repr(piece) for piece in encoder.decode([[number] for number in ids]))
            reason = f"{len(ids)} tokens ({pieces})" if len(ids) != 1 else f"the token of {tokens[ids[0]]!r}, too"
            raise InputError(f"--verbalisers {text}: {word!r} is {reason}: give different words of one token")
        tokens[ids[0]] = word
    return list(tokens)
