"""The symbols of a dictionary as readable words, and which of them are nearest to a row of numbers."""

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from fairseq.data import Dictionary
from torch import Tensor

from preprocess.checksums import FOLDER_FACTS
from preprocess.data_folder import DataFolder
from preprocess.dictionary import FILLER, MASK
from preprocess.encoders import Encoder, folder_encoder, load_encoder, vocab_folder
from preprocess.flags import aligned

from ..errors import InputError
from .trained import load_dictionary

NO_TEXT = "\N{REPLACEMENT CHARACTER}"  # what bytes that are no whole character are decoded to


class Vocabulary:
    """A dictionary, and the encoder that reads its symbols; without one they are words as they stand.

    ``path``: the file of the dictionary, for errors.
    """

    def __init__(self, dictionary: Dictionary, encoder: Encoder | None, path: Path):
        self.dictionary = dictionary
        self.encoder = encoder
        self.path = path

    @classmethod
    def read(cls, source: Path, bpe: str | None, vocab: Path | None) -> "Vocabulary":
        """The words of a dictionary, with the encoder that makes text of its symbols.

        Args:
            source: a dict.txt, or a binarized folder, whose ``preprocess.json`` names the encoder.
            bpe, vocab: what --bpe and --vocab name; they win.

        Raises:
            InputError: no dictionary; symbols are numbers and no encoder was named; an encoder of another dictionary,
                or one whose files are missing or damaged.
        """
        path = source / "input0" / "dict.txt" if source.is_dir() else source
        dictionary = load_dictionary(str(path))
        encoder = find_encoder(source, bpe, vocab)
        symbols = dictionary.symbols
        if encoder is None:
            if sum(map(str.isdigit, symbols)) > len(symbols) / 2:
                raise InputError(
                    f"{path} holds numbers of pieces (GPT-2's): name their encoder with --bpe gpt2 --vocab DIR"
                )
        elif symbols[: len(encoder.symbols)] != encoder.symbols:
            raise InputError(
                f"{path} differs from {encoder.dictionary}: name with --bpe and --vocab the encoder that belongs to it"
            )
        return cls(dictionary, encoder, path)

    def word(self, number: int) -> str:
        """The quoted text of a symbol; special ones, and parts of characters, by their names."""
        symbol = self.dictionary[number]
        if number < self.dictionary.nspecial or symbol == MASK:
            return symbol
        text = self.text([number])
        return f"<piece {symbol}>" if NO_TEXT in text else repr(text)

    def text(self, ids: Sequence[int]) -> str:
        """The text of a row of symbols."""
        if self.encoder is None:
            return " ".join(map(self.dictionary.__getitem__, ids))
        return self.encoder.decode([ids])[0]

    def candidates(self) -> Tensor:
        """Ids of all symbols that can stand in an input: no pad, none that only fills the dictionary up."""
        symbols = self.dictionary.symbols
        pad = self.dictionary.pad()
        chosen = [i for i, symbol in enumerate(symbols) if i != pad and not symbol.startswith(FILLER)]
        return torch.tensor(chosen)


def find_encoder(source: Path, bpe: str | None, vocab: Path | None) -> Encoder | None:
    """The encoder that the options name, or else the folder; None if neither does."""
    if source.is_dir() and (vocab or (source / FOLDER_FACTS).is_file()):
        return load_encoder(*folder_encoder(DataFolder(source), bpe, vocab))
    if bpe or vocab:
        return load_encoder(bpe or "gpt2", vocab_folder(bpe or "gpt2", vocab))
    return None


class NearestWords:
    """The words whose embeddings (V x d) point where a row of the same width points."""

    def __init__(self, vocabulary: Vocabulary, embeddings: Tensor):
        self.vocabulary = vocabulary
        self.candidates = vocabulary.candidates()
        self.directions = F.normalize(embeddings[self.candidates], dim=1)

    def find(self, rows: Tensor, top: int, what: str = "--top") -> tuple[Tensor, Tensor]:
        """R x d rows -> cosines and ids of the nearest words, R x top each, nearest first.

        Args:
            what: names ``top`` in errors.

        Raises:
            InputError: there are not so many words.
        """
        if not 1 <= top <= len(self.candidates):
            raise InputError(f"{what} {top}: {self.vocabulary.path} has {len(self.candidates)} words, give 1 to that")
        cosines, places = (F.normalize(rows, dim=1) @ self.directions.T).topk(top, dim=1)
        return cosines, self.candidates[places]

    def lines(self, rows: Tensor, top: int) -> list[str]:
        """A line for each row: its number, then words and cosines."""
        cells = []
        for number, (row, cosines, ids) in enumerate(zip(rows, *self.find(rows, top)), start=1):
            near = [f"{self.vocabulary.word(i)} {cosine:.3f}" for i, cosine in zip(ids.tolist(), cosines.tolist())]
            cells.append([f"  row {number}", *(near if row.any() else ["all zero", *[""] * (top - 1)])])
        return aligned(cells, left=range(top + 1))
