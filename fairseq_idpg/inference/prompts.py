"""The prompts that inputs get, and the words that their rows resemble: the nearest word embeddings, by cosine."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.data import Dictionary
from torch import Tensor

from preprocess.checksums import FOLDER_FACTS
from preprocess.data_folder import DataFolder
from preprocess.dictionary import FILLER, MASK
from preprocess.encoders import Encoder, folder_encoder, load_encoder, vocab_folder
from preprocess.flags import aligned

from ..backbone.injection import Injection, filled_fields
from ..errors import InputError
from .files import PromptRow
from .text import load_dictionary

NO_TEXT = "\N{REPLACEMENT CHARACTER}"  # what a part of a character is decoded to


@dataclass
class Vocabulary:
    """The dictionary in the file ``path``, and the encoder of its symbols, which without one are words."""

    dictionary: Dictionary
    encoder: Encoder | None
    path: Path

    @classmethod
    def read(cls, source: Path, bpe: str | None, vocab: Path | None) -> "Vocabulary":
        """Return the dictionary of a dict.txt or binarized folder, with the encoder that makes text of its symbols."""
        path = source / "input0" / "dict.txt" if source.is_dir() else source
        dictionary, encoder = load_dictionary(str(path)), None
        if source.is_dir() and (vocab or (source / FOLDER_FACTS).is_file()):
            encoder = load_encoder(*folder_encoder(DataFolder(source), bpe, vocab))
        elif bpe or vocab:
            encoder = load_encoder(bpe or "gpt2", vocab_folder(bpe or "gpt2", vocab))
        symbols = dictionary.symbols
        if encoder is None and sum(map(str.isdigit, symbols)) > len(symbols) / 2:
            raise InputError(
                f"{path} holds numbers of pieces (GPT-2's): name their encoder with --bpe gpt2 --vocab DIR"
            )
        if encoder is not None and symbols[: len(encoder.symbols)] != encoder.symbols:
            raise InputError(
                f"{path} differs from {encoder.dictionary}: name with --bpe and --vocab the encoder that belongs to it"
            )
        return cls(dictionary, encoder, path)

    def word(self, number: int) -> str:
        """Return the text of a symbol, quoted where one would not see it; special ones and parts by their names."""
        symbol = self.dictionary[number]
        if number < self.dictionary.nspecial or symbol == MASK:
            return symbol
        text = self.text([number])
        plain = text.isprintable() and text.split() == [text]
        return f"<piece {symbol}>" if NO_TEXT in text else text if plain else repr(text)

    def text(self, ids: Sequence[int]) -> str:
        if self.encoder is None:
            return " ".join(map(self.dictionary.__getitem__, ids))
        return self.encoder.decode([ids])[0]


class NearestWords:
    """The words whose embeddings (V x d) point where a row of the same width points."""

    def __init__(self, vocabulary: Vocabulary, embeddings: Tensor):
        self.vocabulary = vocabulary
        # Pads, and symbols that only fill the dictionary up, stand in no input.
        symbols, pad = vocabulary.dictionary.symbols, vocabulary.dictionary.pad()
        usable = [i for i, symbol in enumerate(symbols) if i != pad and not symbol.startswith(FILLER)]
        self.candidates = torch.tensor(usable)
        self.directions = F.normalize(embeddings[self.candidates], dim=1)

    def find(self, rows: Tensor, top: int, what: str = "--top") -> list[list[tuple[str, float]]]:
        """Return for R x d rows their ``top`` nearest words and cosines, nearest first; ``what`` names ``top``."""
        if not 1 <= top <= len(self.candidates):
            raise InputError(f"{what} {top}: {self.vocabulary.path} has {len(self.candidates)} words, give 1 to that")
        cosines, places = (F.normalize(rows, dim=1) @ self.directions.T).topk(top, dim=1)
        ids = self.candidates[places].tolist()
        return [list(zip(map(self.vocabulary.word, row), near)) for row, near in zip(ids, cosines.tolist())]

    def lines(self, rows: Tensor, top: int) -> list[str]:
        """Return a line for each row: its number, then words and cosines."""
        cells = []
        for number, (row, words) in enumerate(zip(rows, self.find(rows, top)), start=1):
            near = [f"{word} {cosine:.3f}" for word, cosine in words]
            cells.append([f"  row {number}", *(near if row.any() else ["all zero", *[""] * (top - 1)])])
        return aligned(cells, left=range(top + 1))


SLOTS = ("input", "late")  # which put rows into the sequence; "hidden" changes the rows of "input" in higher layers

LayerRows = tuple[int, Tensor]  # the layer that reads the rows, counted as by --prompt-layers, and B (or 1) x t x d


class SeenRows(list[LayerRows]):
    """All prompt rows of one pass, from the input up; the model's ``inspect`` calls it with what is injected."""

    def __call__(self, injection: Injection) -> Injection:
        filled = filled_fields(injection)
        if isinstance(filled.get("input"), Tensor):
            self.append((0, filled["input"]))
        makers = {slot: filled[slot] for slot in (*SLOTS, "hidden") if callable(filled.get(slot))}
        watched: dict[str, Any] = {slot: partial(self._make, slot, maker) for slot, maker in makers.items()}
        return replace(injection, **watched)

    def _make(self, slot: str, maker: Any, *at: Any) -> Any:
        made = maker(*at)
        if made is not None:
            # "hidden" is called at the end of a layer, with (layer, states), and the next layer reads its rows. At
            # layer -1 they replace the rows of "input", which are 0 then, and whose maker is called with (states).
            if slot == "hidden" and at[0] < 0:
                self.clear()
            self.append((0 if slot == "input" else at[0] + (slot == "hidden"), made))
        return made


def has_rows(model: Any) -> bool:
    return model.method is not None and bool(set(SLOTS) & set(model.method.slots))


def check_has_rows(model: Any) -> None:
    """Raise InputError for a method whose prompt, if it has one, has no rows in the sequence."""
    if not has_rows(model):
        raise InputError(
            f"prompts: --method {model.args.method} has no prompt rows that stand among the words, and an ONNX file "
            "shows none: leave prompts out"
        )


def prompt_rows(seen: list[LayerRows], number: int, nearest: NearestWords, top: int) -> list[PromptRow]:
    """Return the rows of the batch's input ``number``, each with its ``top`` nearest words."""
    layers = [layer for layer, rows in seen for _ in rows[number]]
    vectors = torch.cat([rows[number] for _, rows in seen])
    near = nearest.find(vectors.to(nearest.directions), top, "words")
    return [PromptRow(*row) for row in zip(vectors, near, layers)]
