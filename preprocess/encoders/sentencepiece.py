"""XLM-R's SentencePiece, done by the `sentencepiece` library, with the model's normalization."""

from collections.abc import Sequence
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from ..errors import InputError, reason_of
from . import PieceEncoder
from .hugging_face import dictionary_symbols, fairseq_order, read_settings, sentencepiece_vocabulary

CLASSES = ("XLMRoberta", "Camembert")  # tokenizers of transformers that split text as the model alone does


class SentencePieceEncoder(PieceEncoder):
    """Reads a folder's one ``*.model`` file, and ``dict.txt`` if there; "</s>" and the like in a text are text."""

    def __init__(self, folder: Path):
        models = sorted(path for path in folder.glob("*.model") if path.is_file())
        if len(models) != 1:
            names = ", ".join(path.name for path in models) or "no such file"
            raise InputError(f"--vocab {folder} has {names}, not one *.model: name the folder of a SentencePiece model")
        (path,), dictionary = models, folder / "dict.txt"
        read_settings(folder, CLASSES)
        try:
            self.model = SentencePieceProcessor(model_file=str(path))
        except (RuntimeError, OSError, ValueError) as error:
            raise InputError(f"{path} is not a SentencePiece model: {reason_of(error)}; fetch it again") from None
        pieces = self.model.id_to_piece(list(range(self.model.get_piece_size())))
        derived = None
        if not dictionary.is_file():
            # ids from 4 on as fairseq made XLM-R's dictionary and convert_hf.py makes it
            try:
                vocabulary = sentencepiece_vocabulary(path, pieces)
                derived = dictionary_symbols(vocabulary, fairseq_order(vocabulary))
            except ValueError as error:
                raise InputError(f"{error}: put the model's dict.txt beside it") from None
        super().__init__(dictionary, derived)
        self.files = [file for file in (path, dictionary) if file.is_file()]
        self.set_pieces(pieces, [self.model.unk_id()])

    def split(self, lines: list[str]) -> list[list[int]]:
        return self.model.encode(lines)

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return [self.model.decode_pieces([self.symbols[number] for number in row]) for row in rows]
