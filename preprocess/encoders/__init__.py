"""Text to the ids of a model's dictionary, and back: encoders by the name that ``--bpe`` takes."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from itertools import chain
from pathlib import Path

import numpy as np

from ..checksums import sha256
from ..data_folder import DataFolder
from ..dictionary import EOS, SPECIAL, UNKNOWN, read_dictionary
from ..errors import InputError

ENCODERS = {  # --bpe: its class for plain files, and that for a tokenizer.json; imported when they are asked for
    "gpt2": ("gpt2.GPT2Encoder", "tokenizer_json.ByteLevelTokenizer"),
    "bert": ("tokenizer_json.WordPieceEncoder", "tokenizer_json.WordPieceTokenizer"),
    "sentencepiece": ("sentencepiece.SentencePieceEncoder", "tokenizer_json.UnigramTokenizer"),
}
# of the repository; an installed package has no folder for it, and takes one where the command is called
GPT2_FOLDER = (Path(__file__).parents[2] if __name__ == "preprocess.encoders" else Path()) / "checkpoints" / "gpt2_bpe"
LACKING = -1  # the id of a piece that the dictionary has not
CACHED_WORDS = 1 << 20  # bounds the memory that a large corpus takes


class Encoder(ABC):
    """Splits text into the pieces that a model was trained on.

    ``symbols``: the dictionary, a symbol for each id; ``files``: what the encoder was read from; ``dictionary``: its
    dict.txt, which does not exist if the symbols (of ids from 4 on) were derived from the vocabulary instead;
    ``assumed``: what the files do not say; ``variant``: tells the encoder from an older one that read the same files.
    """

    files: list[Path]
    assumed = ""
    variant = ""

    def __init__(self, dictionary: Path, derived: Sequence[str] | None = None):
        self.dictionary = dictionary
        self.derived = derived
        self.symbols = read_dictionary(dictionary) if derived is None else [*SPECIAL, *derived]
        self.ids = {symbol: number for number, symbol in enumerate(self.symbols)}

    def dictionary_bytes(self) -> bytes:
        """The dict.txt that belongs to the ids: the file as it is, or what convert_hf.py would write."""
        if self.derived is None:
            return self.dictionary.read_bytes()
        return "".join(f"{symbol} 1\n" for symbol in self.derived).encode("utf-8")

    def fingerprint(self) -> str:
        """SHA-256 of what text is split by, without dict.txt, which every folder has a copy of."""
        files = [path for path in self.files if path != self.dictionary]
        return hashlib.sha256("".join([*map(sha256, files), self.variant]).encode()).hexdigest()

    def encode(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Ids of N sentences one after the other, each closed by ``</s>``, and N lengths (``</s>`` counted).

        White space around a sentence is dropped, as fairseq's scripts do. An empty one is ``</s>`` alone.
        """
        ids = self.encode_joined([line.strip() for line in lines])
        ends = np.flatnonzero(ids == EOS) + 1
        return ids, np.diff(ends, prepend=0)

    @abstractmethod
    def encode_joined(self, lines: list[str]) -> np.ndarray:
        """Ids of all sentences, each closed by ``</s>``, which text never becomes."""

    def behind_space(self, row: Sequence[int]) -> list[int]:
        """The ids of a sentence as it is encoded behind other text and a space, from those it has alone: the same."""
        return list(row)

    def encode_part(self, text: str, behind: str = "a") -> list[int]:
        """Return the ids of a text in the middle of another, from its first sign or space on, ``behind`` a word."""
        word, both = (self.encode_joined([line])[:-1].tolist() for line in (behind, behind + text.rstrip()))
        if both[: len(word)] != word or (behind and text[:1].isalnum()):
            raise InputError(f"{text.strip()!r} would be a part of the word in front of it: put a space between them")
        if UNKNOWN in both[len(word) :]:
            raise InputError(f"the encoder does not know the signs of {text.strip()!r}: use others")
        return both[len(word) :]

    @abstractmethod
    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of rows of ids, without ``</s>``."""

    def lacks(self, symbol: str, text: str) -> InputError:
        """The error for a piece that is not in the dictionary, which then belongs to another model."""
        lacking = f"{self.dictionary} lacks the piece {symbol!r} of {text[:40]!r}"
        return InputError(f"{lacking}: give the dict.txt of the model whose encoder this is (--vocab)")


class ByteLevel(Encoder):
    """An encoder in which the space in front of a word belongs to it, and changes its pieces."""

    @cached_property
    def opening(self) -> list[bool]:
        """Whether a symbol begins with white space, and so a word."""
        return [text[:1].isspace() for text in self.decode([[number] for number in range(len(self.symbols))])]

    @cached_property
    def spaced(self) -> dict[tuple[int, ...], list[int]]:
        """First words met before: their ids behind a space."""
        return {}

    def behind_space(self, row: Sequence[int]) -> list[int]:
        end = next((i for i, number in enumerate(row) if self.opening[number]), len(row))
        first = tuple(row[:end])
        if first not in self.spaced:
            if len(self.spaced) > CACHED_WORDS:
                self.spaced.clear()
            (word,) = self.decode([first])
            again, spaced = (self.encode_joined([line])[:-1].tolist() for line in (word, f" {word}"))
            self.spaced[first] = spaced if word and again == [*first] else [*first]
        return [*self.spaced[first], *row[end:]]


class PieceEncoder(Encoder):
    """An encoder whose library splits whole sentences into numbered pieces."""

    @abstractmethod
    def split(self, lines: list[str]) -> list[list[int]]:
        """The library's numbers of the pieces of each sentence."""

    def encode_joined(self, lines: list[str]) -> np.ndarray:
        rows = []
        for row, line in zip(self.split(lines), lines):
            ids = [self.numbers[number] for number in row]
            if LACKING in ids:
                raise self.lacks(self.pieces[row[ids.index(LACKING)]], line)
            rows.append([*ids, EOS])
        return np.fromiter(chain.from_iterable(rows), np.int64)

    def set_pieces(self, pieces: Sequence[str], special: Sequence[int]) -> None:
        """Set the meaning of the library's numbers: the symbol of each, and those of special tokens."""
        self.pieces = pieces
        self.numbers = [max(self.ids[piece], UNKNOWN) if piece in self.ids else LACKING for piece in pieces]
        # no text becomes a special token, even if the library has such a piece
        for number in special:
            self.numbers[number] = UNKNOWN


def find_file(folder: Path, names: Sequence[str], what: str) -> Path:
    """The first of ``names`` that exists in ``folder``."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"--vocab {folder} has no {' or '.join(names)}: name the folder of {what}")


# --- the encoder of a folder ------------------------------------------------------------------------


def load_encoder(bpe: str, vocab: Path, recorded: str | None = None) -> Encoder:
    """Return the encoder of the folder ``vocab``: what its tokenizer.json says, or else its plain files.

    Older data may have a ``recorded`` fingerprint of files that were followed in part.
    """
    plain, library = ENCODERS[bpe]
    followed = library if (vocab / "tokenizer.json").is_file() else plain
    for name, older in ((followed, False), (followed, True), (plain, True)) if recorded else ():
        with suppress(InputError):
            encoder = _load(name, vocab, older)
            if encoder.fingerprint() == recorded:
                return encoder
    return _load(followed, vocab)


def _load(name: str, vocab: Path, older: bool = False) -> Encoder:
    """Return an encoder; an ``older`` one follows a vocabulary's files as far as the first versions did."""
    module, _, encoder = name.partition(".")
    return getattr(import_module(f".{module}", __name__), encoder)(vocab, older)


def vocab_folder(bpe: str, vocab: Path | None) -> Path:
    """Return the folder of the encoder's files; that of ``gpt2`` need not be named."""
    folder = GPT2_FOLDER if vocab is None and bpe == "gpt2" else vocab
    if folder is None or not folder.is_dir():
        remedy = "name that of the backbone's vocabulary; checkpoints/download.sh gpt2_bpe fetches RoBERTa's"
        raise InputError(f"--bpe {bpe}: --vocab {folder} is not a folder: {remedy}")
    return folder


def folder_encoder(data: DataFolder, bpe: str | None, vocab: Path | None) -> tuple[str, Path, str | None]:
    """What the folder was encoded with: the options where given, else its ``preprocess.json``; its fingerprint."""
    recorded = data.facts()
    name, folder = bpe or recorded.get("bpe", "gpt2"), vocab or recorded.get("vocab")
    if name not in list(ENCODERS) or not folder or not isinstance(folder, (str, Path)):
        raise InputError(f"{data.path} does not say how it was encoded: name its encoder with --bpe and --vocab")
    return name, Path(folder), recorded.get("vocab_sha256")


def check_encoder(data: DataFolder, encoder: Encoder) -> None:
    """Raise InputError unless the folder was made with the encoder: its ids would read as other text."""
    if data.symbols != encoder.symbols:
        reason = f"differs from {encoder.dictionary}: name its encoder with --bpe and --vocab"
        raise InputError(f"{data.path}/input0/dict.txt {reason}")
    made_with = encoder.fingerprint()
    if data.facts().get("vocab_sha256", made_with) != made_with:
        what = f"{encoder.files[0]} is not what {data.path} was made with"
        raise InputError(f"{what}: name that with --vocab, or preprocess the folder again")
