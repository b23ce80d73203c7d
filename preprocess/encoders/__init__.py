"""Encoders by the name that ``--bpe`` takes."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path

from ..errors import InputError
from .base import Encoder

ENCODERS = {  # --bpe: its class for plain files, and that for a tokenizer.json; imported when they are asked for
    "gpt2": ("gpt2.GPT2Encoder", "tokenizer_json.ByteLevelTokenizer"),
    "bert": ("wordpiece.WordPieceEncoder", "tokenizer_json.WordPieceTokenizer"),
    "sentencepiece": ("sentencepiece.SentencePieceEncoder", "tokenizer_json.UnigramTokenizer"),
}
# of the repository; an installed package has no folder for it, and takes one where the command is called
GPT2_FOLDER = (Path(__file__).parents[2] if __name__ == "preprocess.encoders" else Path()) / "checkpoints" / "gpt2_bpe"


def load_encoder(bpe: str, vocab: Path, recorded: str | None = None) -> Encoder:
    """Return the encoder of the folder ``vocab``: what its tokenizer.json says, or else its plain files.

    Args:
        recorded: the fingerprint of an encoder; older data has that of the plain files beside a tokenizer.json.
    """
    plain, library = ENCODERS[bpe]
    if not (vocab / "tokenizer.json").is_file():
        return _load(plain, vocab)
    encoder = _load(library, vocab)
    if recorded not in (None, encoder.fingerprint()):
        with suppress(InputError):
            older = _load(plain, vocab)
            return older if older.fingerprint() == recorded else encoder
    return encoder


def _load(name: str, vocab: Path) -> Encoder:
    module, _, encoder = name.partition(".")
    return getattr(import_module(f".{module}", __name__), encoder)(vocab)


def vocab_folder(bpe: str, vocab: Path | None) -> Path:
    """The folder of the encoder's files; that of ``gpt2`` need not be named.

    Raises:
        InputError: it is not there.
    """
    if vocab is None:
        if bpe != "gpt2":
            raise InputError(f"--bpe {bpe} needs --vocab: name the folder of the backbone's vocabulary")
        vocab = GPT2_FOLDER
    if not vocab.is_dir():
        raise InputError(f"--vocab {vocab} does not exist: run checkpoints/download.sh gpt2_bpe, or name the folder")
    return vocab
