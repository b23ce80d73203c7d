"""RoBERTa's byte-pair encoding: GPT-2's merges over bytes, each piece named in dict.txt by its GPT-2 id.

    text → words (GPT-2's regular expression) → bytes → merges → GPT-2 ids → dictionary ids

Words repeat, so each distinct word is merged once (by the `tokenizers` library) and then looked up.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import regex
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from ..dictionary import EOS, FILLER
from ..errors import InputError, reason_of
from . import CACHED_WORDS, ByteLevel, find_file
from .hugging_face import BYTES, SPECIAL_TOKENS, piece_numbers, read_merges, read_settings


def words_pattern(letter: str, number: str, other: str) -> str:
    """Return the pattern of GPT-2's words: contractions; letters, numbers or signs behind a space; white space."""
    return rf"'(?:[stmd]|re|ve|ll)| ?(?:{letter}+|{number}+|{other}+)|\s+(?!\S)|\s+"


ANY_WORD = regex.compile(words_pattern(r"\p{L}", r"\p{N}", r"[^\s\p{L}\p{N}]"))
ASCII_WORD = re.compile(words_pattern("[A-Za-z]", "[0-9]", r"[^\sA-Za-z0-9]"), re.ASCII)  # for ASCII text, faster
ID = np.dtype(np.int32)
END = np.asarray([EOS], ID).tobytes()
CLASSES = ("GPT2", "Roberta", "Longformer", "Bart")  # tokenizers of transformers that are GPT-2's


def check_pieces(pieces: Any, merges: Sequence[tuple[str, str]]) -> None:
    """Raise ValueError unless bytes and merges make all pieces: so each file shows whether the other is whole."""
    if not isinstance(pieces, dict) or sorted(pieces.values()) != list(range(len(pieces))):
        raise ValueError("the pieces are not numbered from 0 on, each once")
    made = dict.fromkeys([*BYTES, *map("".join, merges)])
    special = {token for names in SPECIAL_TOKENS for token in names}
    # a piece without a number, one that nothing is merged to, and a merge that stands there twice
    odd = [piece for piece in made if piece not in pieces]
    odd += sorted(p for p in pieces.keys() - made.keys() - special if not p.startswith(("<", FILLER)))
    odd += ["".join(merge) for merge, count in Counter(merges).items() if count > 1]
    if odd:
        raise ValueError(f"pieces and merges do not belong together: {odd[0]!r} is in one of them alone, or twice")


class GPT2Encoder(ByteLevel):
    """Reads ``encoder.json`` and ``vocab.bpe``, or ``vocab.json`` and ``merges.txt``, and ``dict.txt``."""

    def __init__(self, folder: Path):
        super().__init__(find_file(folder, ["dict.txt"], "RoBERTa's dict.txt"))
        vocabulary = find_file(folder, ["encoder.json", "vocab.json"], "GPT-2's encoder.json")
        merges = find_file(folder, ["vocab.bpe", "merges.txt"], "GPT-2's vocab.bpe")
        self.files = [vocabulary, merges, self.dictionary]
        read_settings(folder, CLASSES, add_prefix_space=False)
        try:
            pieces = json.loads(vocabulary.read_text(encoding="utf-8"))
            steps = read_merges(merges)
            check_pieces(pieces, steps)
            numbers = piece_numbers(pieces, steps, self.ids)
            self.tokenizer = Tokenizer(models.BPE(numbers, steps))
        except Exception as error:  # tokenizers raises plain Exceptions
            what = f"{vocabulary} and {merges} are not GPT-2's encoder"
            raise InputError(f"{what}: {reason_of(error)}; fetch them again") from None
        self.tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self.tokenizer.decoder = decoders.ByteLevel()
        if any(pieces[piece] != number for piece, number in numbers.items()):
            self.variant = "pieces as numbered by convert_hf.py"
        # by the number of a piece, the bytes of its id in the dictionary
        known = ((number, self.ids.get(str(number))) for number in numbers.values())
        self.numbers = {number: np.asarray(i, ID).tobytes() for number, i in known if i is not None}
        self.known = {"": END}  # ids of words met before; the empty word ends a sentence

    def encode_joined(self, lines: list[str]) -> np.ndarray:
        words: list[str] = []
        for line in lines:
            words += (ASCII_WORD if line.isascii() else ANY_WORD).findall(line)
            words.append("")
        if len(self.known) > CACHED_WORDS:
            self.known = {"": END}
        new = list(set(words).difference(self.known))
        for word, encoded in zip(new, self.tokenizer.encode_batch_fast(new, add_special_tokens=False)):
            try:
                self.known[word] = b"".join([self.numbers[piece] for piece in encoded.ids])
            except KeyError as error:
                raise self.lacks(str(error), word) from None
        return np.frombuffer(b"".join(map(self.known.__getitem__, words)), ID)

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        numbers = [[int(symbol) for symbol in map(self.symbols.__getitem__, row) if symbol.isdigit()] for row in rows]
        return self.tokenizer.decode_batch(numbers, skip_special_tokens=False)
