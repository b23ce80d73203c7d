"""BERT's WordPiece from a vocab.txt, done by the `tokenizers` library.

text -> cleaned, lower-cased if the model is uncased -> words and signs -> pieces -> dictionary ids
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from .base import find_file
from .hugging_face import CONFIG, WORDS, Vocabulary, content_of, read_config, read_settings
from .tokenizer_json import SETTINGS, WordPieceTokenizer

# tokenizers of transformers that are BERT's
CLASSES = ("Bert", "DistilBert", "Electra", "MobileBert", "MPNet", "ConvBert", "SqueezeBert", "LayoutLM")


class WordPieceEncoder(WordPieceTokenizer):
    """Reads ``vocab.txt``, ``tokenizer_config.json`` if there, and ``dict.txt`` if there."""

    file = "vocab.txt"

    def __init__(self, folder: Path, older: bool = False):
        find_file(folder, ["tokenizer.json", self.file], "BERT's vocabulary")
        super().__init__(folder, older)

    def read(self, vocabulary: Vocabulary) -> Tokenizer:
        folder = vocabulary.path.parent
        config = read_config(folder) if self.older else read_settings(folder, CLASSES, **WORDS, never_split=[])
        settings = {ours: config[theirs] for theirs, ours in SETTINGS.items() if theirs in config}
        if "lowercase" not in settings:
            assumed = self.assume(vocabulary.tokens)
            if self.older:
                del assumed["strip_accents"]
            elif assumed["lowercase"] and not assumed["strip_accents"] and "strip_accents" not in settings:
                self.variant = "accents kept"
            settings = {**assumed, **settings}
        pieces = {piece: number for number, piece in enumerate(vocabulary.tokens)}
        unknown = content_of(config.get("unk_token", "[UNK]" if "[UNK]" in pieces else "<unk>"))  # MPNet has both
        tokenizer = Tokenizer(models.WordPiece(pieces, unk_token=unknown, max_input_chars_per_word=100))
        tokenizer.normalizer = normalizers.BertNormalizer(**settings)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return tokenizer

    def assume(self, tokens: Sequence[str]) -> dict[str, bool]:
        """Return the normalizer's settings that the pieces suggest, where no file says them."""
        words = [piece for piece in tokens if not (piece.startswith("[") and piece.endswith("]"))]
        lower = all(word == word.lower() for word in words)
        marks = any(unicodedata.category(sign) == "Mn" for word in words for sign in unicodedata.normalize("NFD", word))
        self.assumed = (
            f"{self.file} alone does not say how text is normalized; assumed from its pieces: "
            f"{'lower case' if lower else 'case kept'}, accents {'kept' if marks or not lower else 'dropped'}; "
            f"{CONFIG} beside it (do_lower_case, strip_accents) says otherwise"
        )
        return {"lowercase": lower, "strip_accents": lower and not marks}
