"""XLM-R's SentencePiece, done by the `sentencepiece` library, with the model's own normalization.

The model's ids 0 to 2 are <unk>, <s>, </s>; fairseq has four special symbols, so its id of any piece is one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from ..errors import InputError, reason_of
from . import PieceEncoder
from .hugging_face import FAIRSEQ_SPECIAL, Vocabulary, dictionary_symbols, fairseq_order, read_settings

SPECIAL_PIECES = ["<unk>", "<s>", "</s>"]
CLASSES = ("XLMRoberta", "Camembert")  # tokenizers of transformers that split text as the model alone does


class SentencePieceEncoder(PieceEncoder):
    """Reads a folder's one ``*.model`` file, and ``dict.txt`` if there; "</s>" and the like in a text are text."""

    def __init__(self, folder: Path, older: bool = False):
        path = find_model(folder)
        dictionary = folder / "dict.txt"
        if not older:
            read_settings(folder, CLASSES)
        try:
            self.model = SentencePieceProcessor(model_file=str(path))
        except (RuntimeError, OSError, ValueError) as error:
            raise InputError(f"{path} is not a SentencePiece model: {reason_of(error)}; fetch it again") from None
        pieces = self.model.id_to_piece(list(range(self.model.get_piece_size())))
        super().__init__(dictionary, None if dictionary.is_file() else derived_symbols(path, pieces))
        self.files = [file for file in (path, dictionary) if file.is_file()]
        self.set_pieces(pieces, [self.model.unk_id()])

    def split(self, lines: list[str]) -> list[list[int]]:
        return self.model.encode(lines)

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return [self.model.decode_pieces([self.symbols[number] for number in row]) for row in rows]


def find_model(folder: Path) -> Path:
    models = sorted(path for path in folder.glob("*.model") if path.is_file())
    if len(models) != 1:
        names = ", ".join(path.name for path in models) or "no such file"
        raise InputError(f"--vocab {folder} has {names}, not one *.model: name the folder of a SentencePiece model")
    return models[0]


def derived_symbols(path: Path, pieces: list[str]) -> list[str]:
    """The dictionary of ids from 4 on, as fairseq made XLM-R's and convert_hf.py makes it."""
    try:
        if pieces[:3] != SPECIAL_PIECES:
            raise ValueError(f"{path} begins with {' '.join(pieces[:3])}, not {' '.join(SPECIAL_PIECES)} as XLM-R's")
        vocabulary = Vocabulary(path, [*FAIRSEQ_SPECIAL[:4], *pieces[3:], FAIRSEQ_SPECIAL[4]])
        return dictionary_symbols(vocabulary, fairseq_order(vocabulary))
    except ValueError as error:
        raise InputError(f"{error}: put the model's dict.txt beside it") from None
