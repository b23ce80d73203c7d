"""``--template``: the sentences of an example among words of a text, one of which is ``<mask>``.

    {0} ? <mask> , {1}   ->   <s> A ? <mask> , B </s>

Words and signs are encoded as the data is, in the place where they stand: behind a space GPT-2's encoding has other
tokens than at the beginning of a text, for the first word of B, too. So the tokens are those of the whole text, but for
a sign without a space between it and a sentence: it is encoded by itself, where the text may have both in one token.

Source: LPT's released code (github.com/xyltt/LPT), which writes templates into the text and then encodes that.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from preprocess.dictionary import MASK
from preprocess.encoders.base import Encoder

from ..errors import InputError

SPECIAL = ("<s>", "</s>", "<pad>", "<unk>")
PIECES = re.compile(r"(\{0\}|\{1\}|<mask>)")


@dataclass(frozen=True)
class Template:
    """A template in tokens: a pure function of the tokens of one example's sentences.

    Attributes:
        parts: the number of a sentence, or tokens of the text; those of ``<mask>`` stand alone.
        mask_part: which part is ``<mask>``.
        spaced: the sentences that stand behind a space.
        behind_space: the tokens of a sentence -> those that it has behind a space.
        start, end: ``<s>`` and ``</s>``.
    """

    parts: tuple[int | tuple[int, ...], ...]
    mask_part: int
    spaced: tuple[int, ...]
    behind_space: Callable[[Sequence[int]], list[int]]
    start: int
    end: int

    def place(self, number: int, sentence: Tensor) -> Tensor:
        """The tokens that the sentence ``number`` has in its place, from those of it alone, without ``</s>``."""
        if number not in self.spaced:
            return sentence
        return torch.tensor(self.behind_space(sentence.tolist()), dtype=sentence.dtype)

    def join(self, placed: Sequence[Tensor]) -> Tensor:
        """The tokens of an example, ``<s>`` to ``</s>``, whose sentences are ``placed``, or as much as has room."""
        parts = [placed[part] if isinstance(part, int) else placed[0].new_tensor(part) for part in self.parts]
        ends = placed[0].new_tensor([self.start, self.end])
        return torch.cat([ends[:1], *parts, ends[1:]])

    def mask_index(self, lengths: Sequence[Any]) -> Any:
        """The index of ``<mask>`` beside sentences of these lengths, numbers or arrays of them."""
        before = self.parts[: self.mask_part]
        return 1 + sum(lengths[part] if isinstance(part, int) else len(part) for part in before)

    @property
    def words(self) -> int:
        """The tokens of an example besides those of its sentences, ``<s>`` and ``</s>`` counted."""
        return 2 + sum(len(part) for part in self.parts if not isinstance(part, int))


def encode_template(text: str, pairs: bool, encoder: Encoder, mask: int, start: int, end: int) -> Template:
    """The template that ``--template`` says.

    Args:
        pairs: whether examples have two sentences.
        encoder: of the data.
        mask, start, end: tokens.

    Raises:
        InputError: it is no such template, or has words that cannot be encoded.
    """
    pieces = [piece for piece in PIECES.split(text.strip()) if piece]
    check_pieces(text, pieces, pairs)
    parts: list[int | tuple[int, ...]] = []
    spaced: set[int] = set()
    try:
        for previous, piece in zip(["", *pieces], pieces):
            if piece == MASK:
                parts.append((mask,))
            elif PIECES.fullmatch(piece):
                parts.append(int(piece[1]))
                spaced |= {int(piece[1])} if previous[-1:].isspace() else set()
            elif piece.strip():
                parts.append(tuple(encoder.encode_part(piece) if parts else encoder.encode_part(piece.lstrip(), "")))
    except InputError as error:
        raise InputError(f"--template {text}: {error}") from None
    moved = sorted(spaced) if type(encoder).behind_space is not Encoder.behind_space else ()
    return Template(tuple(parts), parts.index((mask,)), tuple(moved), encoder.behind_space, start, end)


def check_pieces(text: str, pieces: Sequence[str], pairs: bool) -> None:
    """Raises InputError unless ``<mask>`` and every sentence stand in the template once, and nothing else special."""
    wanted = [MASK, "{0}", *(["{1}"] if pairs else [])]
    wrong = [name for name in wanted if pieces.count(name) != 1]
    if wrong:
        count = pieces.count(wrong[0])
        raise InputError(
            f"--template {text} has {count or 'no'} {wrong[0]}: it needs one <mask>, and each sentence once, {{0}} "
            + ("and {1}" if pairs else "alone")
        )
    if not pairs and "{1}" in pieces:
        raise InputError(f"--template {text} has {{1}}, but the data has single sentences (no input1): use {{0}} alone")
    plain = "".join(piece for piece in pieces if not PIECES.fullmatch(piece))
    strange = next((sign for sign in (*SPECIAL, "{", "}") if sign in plain), None)
    if strange:
        raise InputError(
            f"--template {text}: {strange} would be encoded as a text: leave it out (<s> and </s> are put around it)"
        )
