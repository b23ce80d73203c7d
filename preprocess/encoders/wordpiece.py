"""BERT's WordPiece, done by the `tokenizers` library.

    text → cleaned, lower-cased if the model is uncased → words and signs → pieces → dictionary ids

A model converted by checkpoints/convert_hf.py has its pieces in dict.txt, only in another order; without dict.txt the
same order is derived here, by the same code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from ..errors import InputError
from .base import PieceEncoder, find_file
from .hugging_face import Vocabulary, dictionary_symbols, fairseq_order, read_json, read_vocabulary

CONFIG = "tokenizer_config.json"
SETTINGS = {  # tokenizer_config.json's names: the normalizer's
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}


class WordPieceEncoder(PieceEncoder):
    """Reads ``tokenizer.json`` or ``vocab.txt``, ``tokenizer_config.json`` if there, and ``dict.txt`` if there.

    Special tokens written in the text, such as "[SEP]", are text. Other tokens that were added to tokenizer.json are
    looked for, as transformers does.
    """

    def __init__(self, folder: Path):
        path = find_file(folder, ["tokenizer.json", "vocab.txt"], "BERT's vocabulary")
        config, dictionary = folder / CONFIG, folder / "dict.txt"
        try:
            vocabulary = read_vocabulary(folder)
            order = fairseq_order(vocabulary)
            symbols = None if dictionary.is_file() else dictionary_symbols(vocabulary, order)
            settings = read_settings(config)
            self.tokenizer = read_tokenizer(vocabulary, vocabulary.tokens[order[3]])
            self.tokenizer.normalizer = read_normalizer(self.tokenizer.normalizer, settings, vocabulary)
        except InputError:
            raise
        except Exception as error:  # tokenizers raises plain Exceptions
            reason = " ".join(str(error).replace(f"{path}: ", "").split())[:200]
            raise InputError(f"{path} is not BERT's vocabulary: {reason}; fetch it again") from None
        super().__init__(dictionary, symbols)
        self.files = [file for file in (path, config, dictionary) if file.is_file()]
        self.set_pieces(vocabulary.tokens, unknown=order[3])

    def split(self, lines: list[str]) -> list[list[int]]:
        encoded = self.tokenizer.encode_batch_fast(lines, add_special_tokens=False)
        return [row.ids for row in encoded]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return [" ".join(map(self.symbols.__getitem__, row)).replace(" ##", "") for row in rows]


def read_settings(path: Path) -> dict[str, Any]:
    """What tokenizer_config.json says of the normalizer, under the normalizer's names."""
    try:
        config = read_json(path) if path.is_file() else {}
        return {ours: config[theirs] for theirs, ours in SETTINGS.items() if config.get(theirs) is not None}
    except (ValueError, AttributeError) as error:
        raise InputError(f"{path} is not a tokenizer's settings: {error}; fetch it again") from None


def read_tokenizer(vocabulary: Vocabulary, unknown: str) -> Tokenizer:
    """BERT's tokenizer, with the file's normalizer or none."""
    path = vocabulary.path
    if path.name == "tokenizer.json":
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True  # as text
    else:
        pieces = {piece: number for number, piece in enumerate(vocabulary.tokens)}
        tokenizer = Tokenizer(models.WordPiece(pieces, unk_token=unknown, max_input_chars_per_word=100))
    splitter = tokenizer.pre_tokenizer or pre_tokenizers.BertPreTokenizer()
    for part, kind in ((tokenizer.model, models.WordPiece), (splitter, pre_tokenizers.BertPreTokenizer)):
        if not isinstance(part, kind):
            raise InputError(f"{path} has {type(part).__name__}, not BERT's {kind.__name__}: choose another --bpe")
    if tokenizer.model.token_to_id(tokenizer.model.unk_token) is None:
        raise ValueError(f"its unk_token {tokenizer.model.unk_token!r} is not one of its pieces")
    tokenizer.pre_tokenizer = splitter
    return tokenizer


def read_normalizer(found: Any, settings: dict[str, Any], vocabulary: Vocabulary) -> normalizers.BertNormalizer:
    """BERT's normalizer as tokenizer.json (``found``) or tokenizer_config.json (``settings``) has it.

    If neither tells, a model is cased if a piece has an upper-case letter.
    """
    path = vocabulary.path
    if found is None:
        words = [piece for piece in vocabulary.tokens if not (piece.startswith("[") and piece.endswith("]"))]
        return normalizers.BertNormalizer(**{"lowercase": all(word == word.lower() for word in words), **settings})
    if not isinstance(found, normalizers.BertNormalizer):
        raise InputError(f"{path} has the normalizer {type(found).__name__}, not BERT's: choose another --bpe")
    for name, value in settings.items():
        own = getattr(found, name)
        if value != (found.lowercase if own is None else own):  # strip_accents: null means as lowercase
            raise InputError(f"{path} has {name} = {own}, but {CONFIG} beside it {value}: correct the wrong one")
    return found
