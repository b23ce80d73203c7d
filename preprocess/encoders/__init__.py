"""Text to the ids of a model's dictionary, and back: encoders by the name that ``--bpe`` takes."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from importlib import import_module
from itertools import chain
from pathlib import Path

import numpy as np

from ..checksums import sha256
from ..data_folder import DataFolder
from ..dictionary import EOS, SPECIAL, UNKNOWN, read_dictionary
from ..errors import InputError

ENCODERS = {  # --bpe: the class for plain files, and that for a tokenizer.json; imported when asked for
    "gpt2": ("gpt2.GPT2Encoder", "tokenizer_json.ByteLevelTokenizer"),
    "bert": ("tokenizer_json.WordPieceEncoder", "tokenizer_json.WordPieceTokenizer"),
    "sentencepiece": ("sentencepiece.SentencePieceEncoder", "tokenizer_json.UnigramTokenizer"),
}
# in the repository; an installed package has no such folder, and takes that of the current folder
GPT2_FOLDER = (Path(__file__).parents[2] if __name__ == "preprocess.encoders" else Path()) / "checkpoints" / "gpt2_bpe"
LACKING = -1  # stands for the id of a piece that the dictionary lacks
CACHED_WORDS = 1 << 20  # bounds the memory that a large corpus takes


class Encoder(ABC):
    """Splits text into the pieces that a model was trained on.

    ``symbols``: the dictionary, a symbol for each id; ``derived``: those of ids from 4 on where they come from the
    vocabulary, as there is no dict.txt (``dictionary``).
    """

    files: list[Path]  # what the encoder was read from
    assumed = ""  # what the files do not say
    variant = ""  # tells encoders apart that read the same files otherwise

    def __init__(self, dictionary: Path, derived: Sequence[str] | None = None):
        self.dictionary = dictionary
        self.derived = derived
        self.symbols = read_dictionary(dictionary) if derived is None else [*SPECIAL, *derived]
        self.ids = {symbol: number for number, symbol in enumerate(self.symbols)}

    def dictionary_bytes(self) -> bytes:
        """Return the dict.txt that belongs to the ids: the file as it is, or what convert_hf.py would write."""
        if self.derived is None:
            return self.dictionary.read_bytes()
        return "".join(f"{symbol} 1\n" for symbol in self.derived).encode("utf-8")

    def fingerprint(self) -> str:
        """Return the SHA-256 of what text is split by: without dict.txt, of which every folder has a copy."""
        files = [path for path in self.files if path != self.dictionary]
        return hashlib.sha256("".join([*map(sha256, files), self.variant]).encode()).hexdigest()

    def encode(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of N sentences one after the other, each closed by ``</s>``, and N lengths with ``</s>``.

        White space around a sentence is dropped, as fairseq's scripts do. An empty one is ``</s>`` alone.
        """
        ids = self.encode_joined([line.strip() for line in lines])
        ends = np.flatnonzero(ids == EOS) + 1
        return ids, np.diff(ends, prepend=0)

    @abstractmethod
    def encode_joined(self, lines: list[str]) -> np.ndarray:
        """Return the ids of all sentences, each closed by ``</s>``, which text never becomes."""

    def behind_space(self, row: Sequence[int]) -> list[int]:
        """Return the ids that a sentence has behind other text and a space, from those that it has alone."""
        return list(row)

    def encode_part(self, text: str, behind: str = "a") -> list[int]:
        """Return the ids that a text has ``behind`` a word; raise InputError where it would change that word."""
        word, both = (self.encode_joined([line])[:-1].tolist() for line in (behind, behind + text.rstrip()))
        if both[: len(word)] != word or (behind and text[:1].isalnum()):
            raise InputError(f"{text.strip()!r} would be a part of the word in front of it: put a space between them")
        if UNKNOWN in both[len(word) :]:
            raise InputError(f"the encoder does not know the signs of {text.strip()!r}: use others")
        return both[len(word) :]

    @abstractmethod
    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of rows of ids without ``</s>``."""

    def lacks(self, symbol: str, text: str) -> InputError:
        """Return the error for a piece that the dictionary lacks: it belongs to another model."""
        lacking = f"{self.dictionary} lacks the piece {symbol!r} of {text[:40]!r}"
        return InputError(f"{lacking}: put the dict.txt of this encoder's model there, or name another --vocab")


class ByteLevel(Encoder):
    """An encoder in which the space in front of a word belongs to it, and changes its pieces."""

    @cached_property
    def opening(self) -> list[bool]:
        """Whether a symbol begins with white space, and so a word."""
        return [text[:1].isspace() for text in self.decode([[number] for number in range(len(self.symbols))])]

    def behind_space(self, row: Sequence[int]) -> list[int]:
        end = next((i for i, number in enumerate(row) if self.opening[number]), len(row))
        return [*self.spaced(tuple(row[:end])), *row[end:]]

    @cached_property
    def spaced(self) -> Callable[[tuple[int, ...]], Sequence[int]]:
        """From the ids of a sentence's first word to those that it has behind a space."""

        @lru_cache(CACHED_WORDS)
        def spaced(first: tuple[int, ...]) -> Sequence[int]:
            (word,) = self.decode([first])
            alone, behind = (self.encode_joined([line])[:-1].tolist() for line in (word, f" {word}"))
            return behind if word and alone == [*first] else first

        return spaced


class PieceEncoder(Encoder):
    """An encoder whose library splits whole sentences into numbered pieces."""

    @abstractmethod
    def split(self, lines: list[str]) -> list[list[int]]:
        """Return the library's numbers of the pieces of each sentence."""

    def encode_joined(self, lines: list[str]) -> np.ndarray:
        rows = []
        for row, line in zip(self.split(lines), lines):
            ids = [self.numbers[number] for number in row]
            if LACKING in ids:
                raise self.lacks(self.pieces[row[ids.index(LACKING)]], line)
            rows.append([*ids, EOS])
        return np.fromiter(chain.from_iterable(rows), np.int64)

    def set_pieces(self, pieces: Sequence[str], special: Sequence[int]) -> None:
        """Set the symbol of each of the library's numbers; ``special``: the numbers of special tokens."""
        self.pieces = pieces
        self.numbers = [max(self.ids[piece], UNKNOWN) if piece in self.ids else LACKING for piece in pieces]
        # text never becomes a special token, even if the library has such a piece
        for number in special:
            self.numbers[number] = UNKNOWN


def find_file(folder: Path, names: Sequence[str], what: str) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"--vocab {folder} has no {' or '.join(names)}: name the folder of {what}")


def load_encoder(bpe: str, vocab: Path) -> Encoder:
    """Return the encoder of the folder ``vocab``: what its tokenizer.json says, or else its plain files."""
    plain, library = ENCODERS[bpe]
    module, _, encoder = (library if (vocab / "tokenizer.json").is_file() else plain).partition(".")
    return getattr(import_module(f".{module}", __name__), encoder)(vocab)


def vocab_folder(bpe: str, vocab: Path | None) -> Path:
    """Return the folder of the encoder's files; that of ``gpt2`` need not be named."""
    folder = GPT2_FOLDER if vocab is None and bpe == "gpt2" else vocab
    if folder is None or not folder.is_dir():
        what = "is missing" if folder is None else f"{folder} is not a folder"
        remedy = "name that of the backbone's vocabulary; checkpoints/download.sh gpt2_bpe fetches RoBERTa's"
        raise InputError(f"--bpe {bpe}: --vocab {what}: {remedy}")
    return folder


def folder_encoder(data: DataFolder, bpe: str | None, vocab: Path | None) -> tuple[str, Path]:
    """Return what the folder was encoded with: the options where given, else what its ``preprocess.json`` says."""
    recorded = data.facts()
    name, folder = bpe or recorded.get("bpe", "gpt2"), vocab or recorded.get("vocab")
    if name not in list(ENCODERS) or not folder or not isinstance(folder, (str, Path)):
        raise InputError(f"{data.path} does not say how it was encoded: name its encoder with --bpe and --vocab")
    return name, Path(folder)


def check_encoder(data: DataFolder, encoder: Encoder) -> None:
    """Raise InputError unless the folder was made with the encoder: its ids would read as other text."""
    made_with = encoder.fingerprint()
    if data.symbols != encoder.symbols or data.facts().get("vocab_sha256", made_with) != made_with:
        file = encoder.dictionary if data.symbols != encoder.symbols else encoder.files[0]
        remedy = "name its encoder with --bpe and --vocab, or preprocess the folder again"
        raise InputError(f"{file} is not what {data.path} was made with: {remedy}")
