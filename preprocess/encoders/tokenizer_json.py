"""Encoders of the `tokenizers` library: from a tokenizer.json, as it stands, or from BERT's vocab.txt.

    text -> normalized -> words -> pieces (BPE over bytes, WordPiece or Unigram) -> dictionary ids

The dict.txt of a model that checkpoints/convert_hf.py converted has the pieces in another order. Without dict.txt the
same code derives that order here.
"""

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from ..dictionary import UNKNOWN
from ..errors import InputError, reason_of
from . import LACKING, ByteLevel, PieceEncoder
from .hugging_face import (
    CONFIG,
    WORDS,
    Vocabulary,
    content_of,
    dictionary_symbols,
    fairseq_order,
    piece_numbers,
    read_config,
    read_settings,
    read_vocabulary,
    special_ids,
    special_names,
)

SETTINGS = {  # tokenizer_config.json's names: the normalizer's
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
LONGEST_WORD = 1000  # characters: WordPiece's time grows with their square; BERT's has 100
MOST_GROWTH = 256  # times as long as a text: XLM-R's and ALBERT's replacements make it 2
# tokenizers of transformers that are BERT's
CLASSES = ("Bert", "DistilBert", "Electra", "MobileBert", "MPNet", "ConvBert", "SqueezeBert", "LayoutLM")


class TokenizerEncoder(PieceEncoder):
    """Reads ``tokenizer.json``, and ``tokenizer_config.json`` and ``dict.txt`` if there.

    A special token that is written in a text, such as "[SEP]", is text. Other tokens that were added to tokenizer.json,
    such as markers of entities, are looked for, as transformers does.
    """

    kinds: tuple[type, ...]  # of the library
    decoder: Any
    file = "tokenizer.json"

    def __init__(self, folder: Path):
        path, dictionary = folder / self.file, folder / "dict.txt"
        if not path.is_file():
            raise InputError(f"--vocab {folder} has no {self.file}: name the folder of the model's vocabulary")
        try:
            vocabulary = read_vocabulary(path)
            derive = not dictionary.is_file()
            super().__init__(dictionary, dictionary_symbols(vocabulary, fairseq_order(vocabulary)) if derive else None)
            self.tokenizer = self.read(vocabulary)
            special = special_ids(vocabulary)
            self.set_pieces(self.symbols_of(vocabulary), special)
            if self.file == "tokenizer.json" and LACKING in self.numbers:
                raise self.lacks(self.pieces[self.numbers.index(LACKING)], self.file)
        except InputError:
            raise
        except Exception as error:  # tokenizers raises plain Exceptions
            reason = reason_of(error, None).replace(f"{path}: ", "")[:200]
            raise InputError(f"{path} does not fit --bpe: {reason}; fetch it again, or give another --bpe") from None
        self.files = [file for file in (path, folder / CONFIG, dictionary) if file.is_file()]
        # all special tokens share the unknown id; it reads back as <unk>, the fourth of them
        self.library = {ours: theirs for theirs, ours in enumerate(self.numbers)}
        self.library.update((UNKNOWN, number) for number in special[3:4])

    def read(self, vocabulary: Vocabulary) -> Tokenizer:
        """Return the tokenizer of the file, without cutting and padding."""
        path = vocabulary.path
        tokenizer = Tokenizer.from_file(str(path))
        if not isinstance(tokenizer.model, self.kinds):
            allowed = " or ".join(kind.__name__ for kind in self.kinds)
            raise ValueError(f"it has {type(tokenizer.model).__name__}, not {allowed}")
        check_growth(tokenizer.normalizer)
        check_config(path, tokenizer)
        # The library leaves every token that was added as special as text. So markers of entities and the like lose
        # that mark, unlike the model's special tokens.
        added = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
        markers = added - special_names(read_config(path.parent))
        if markers:
            self.variant = "special tokens of its own"
            content = json.loads(tokenizer.to_str())
            for token in content["added_tokens"]:
                token["special"] &= token["content"] not in markers
            tokenizer = Tokenizer.from_str(json.dumps(content))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True  # as text
        tokenizer.decoder = self.decoder
        return tokenizer

    def symbols_of(self, vocabulary: Vocabulary) -> Sequence[str]:
        """Return the symbol of each token in dict.txt, which must hold all but the special ones."""
        return vocabulary.tokens

    def split(self, lines: list[str]) -> list[list[int]]:
        encoded = self.tokenizer.encode_batch_fast(lines, add_special_tokens=False)
        return [row.ids for row in encoded]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        numbers = [[self.library[number] for number in row if number in self.library] for row in rows]
        return self.tokenizer.decode_batch(numbers, skip_special_tokens=False)


class ByteLevelTokenizer(ByteLevel, TokenizerEncoder):
    """RoBERTa's kind."""

    kinds = (models.BPE,)
    decoder = decoders.ByteLevel()

    def symbols_of(self, vocabulary: Vocabulary) -> Sequence[str]:
        tokens = vocabulary.tokens
        numbers = piece_numbers({token: i for i, token in enumerate(tokens)}, vocabulary.merges or [], self.ids)
        return [str(numbers.get(token, token)) for token in tokens]


class UnigramTokenizer(TokenizerEncoder):
    """SentencePiece's kinds: XLM-R's, or a BPE over characters."""

    kinds = (models.Unigram, models.BPE)
    decoder = decoders.Metaspace()


class WordPieceTokenizer(TokenizerEncoder):
    """BERT's kind."""

    kinds = (models.WordPiece,)
    decoder = None

    def read(self, vocabulary: Vocabulary) -> Tokenizer:
        tokenizer = super().read(vocabulary)
        if tokenizer.model.max_input_chars_per_word > LONGEST_WORD:
            raise ValueError(f"its max_input_chars_per_word is over {LONGEST_WORD}")
        if tokenizer.pre_tokenizer is None:
            raise ValueError("it has no pre_tokenizer, so that a sentence would be one word")
        return tokenizer

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return [" ".join(map(self.symbols.__getitem__, row)).replace(" ##", "") for row in rows]


def check_growth(normalizer: Any) -> None:
    """Raise ValueError where a normalizer may make a text many times longer: replacements whose lengths multiply."""
    steps, growth = [] if normalizer is None else [json.loads(normalizer.__getstate__())], 1.0
    while steps:
        step = steps.pop()
        steps += step.get("normalizers", [])
        if step["type"] == "Replace":
            length = len(step["pattern"].get("String", ""))
            # a pattern may be found between any two characters
            growth *= max(1, len(step["content"]) / length) if length else 1 + len(step["content"])
    if growth > MOST_GROWTH:
        raise ValueError(f"it replaces characters by texts up to {growth:.3g} times as long, over {MOST_GROWTH}")


def check_config(path: Path, tokenizer: Tokenizer) -> None:
    """Raise InputError where tokenizer_config.json says otherwise than tokenizer.json (``path``) beside it."""
    config, settings = read_config(path.parent), dict(WORDS)
    normalizer, words = tokenizer.normalizer, tokenizer.pre_tokenizer
    if isinstance(normalizer, normalizers.BertNormalizer):
        settings |= {theirs: getattr(normalizer, ours) for theirs, ours in SETTINGS.items()}
        if settings["strip_accents"] is None:  # as lower case
            settings["strip_accents"] = settings["do_lower_case"]
    if isinstance(words, pre_tokenizers.ByteLevel):
        settings["add_prefix_space"] = words.add_prefix_space
    for name, value in settings.items():
        if config.get(name, value) != value:
            raise InputError(f"{path} has {name} = {value}, but {CONFIG} beside it {config[name]}: correct one of them")


class WordPieceEncoder(WordPieceTokenizer):
    """Reads ``vocab.txt``, and ``tokenizer_config.json`` and ``dict.txt`` if there."""

    file = "vocab.txt"

    def read(self, vocabulary: Vocabulary) -> Tokenizer:
        folder = vocabulary.path.parent
        config = read_settings(folder, CLASSES, **WORDS, never_split=[])
        settings = {ours: config[theirs] for theirs, ours in SETTINGS.items() if theirs in config}
        if "lowercase" not in settings:
            assumed = self.assume(vocabulary.tokens)
            if assumed["lowercase"] and not assumed["strip_accents"] and "strip_accents" not in settings:
                self.variant = "accents kept"
            settings = {**assumed, **settings}
        pieces = {piece: number for number, piece in enumerate(vocabulary.tokens)}
        unknown = content_of(config.get("unk_token", "[UNK]" if "[UNK]" in pieces else "<unk>"))  # MPNet has both
        tokenizer = Tokenizer(models.WordPiece(pieces, unk_token=unknown, max_input_chars_per_word=100))
        tokenizer.normalizer = normalizers.BertNormalizer(**settings)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return tokenizer

    def assume(self, tokens: Sequence[str]) -> dict[str, bool]:
        """Return the normalizer's settings that the pieces suggest, and note that they are assumed."""
        words = [piece for piece in tokens if not (piece.startswith("[") and piece.endswith("]"))]
        lower = all(word == word.lower() for word in words)
        marks = any(unicodedata.category(sign) == "Mn" for word in words for sign in unicodedata.normalize("NFD", word))
        self.assumed = (
            f"{self.file} alone does not say how text is normalized; assumed from its pieces: "
            f"{'lower case' if lower else 'case kept'}, accents {'kept' if marks or not lower else 'dropped'}; "
            f"{CONFIG} beside it (do_lower_case, strip_accents) says otherwise"
        )
        return {"lowercase": lower, "strip_accents": lower and not marks}
