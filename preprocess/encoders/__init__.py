"""Encoders by the name that ``--bpe`` takes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from ..errors import InputError
from .base import Encoder

ENCODERS = {  # --bpe: its class, imported when it is asked for
    "gpt2": ("gpt2", "GPT2Encoder"),
    "bert": ("wordpiece", "WordPieceEncoder"),
    "sentencepiece": ("sentencepiece", "SentencePieceEncoder"),
}
# of the repository; an installed package has no folder for it, and takes one where the command is called
GPT2_FOLDER = (Path(__file__).parents[2] if __name__ == "preprocess.encoders" else Path()) / "checkpoints" / "gpt2_bpe"


def load_encoder(bpe: str, vocab: Path) -> Encoder:
    """The encoder named ``bpe``, read from the folder ``vocab``."""
    module, name = ENCODERS[bpe]
    return getattr(import_module(f".{module}", __name__), name)(vocab)


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
