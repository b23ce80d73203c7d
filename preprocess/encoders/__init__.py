"""Encoders by the name that ``--bpe`` takes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from .base import Encoder

ENCODERS = {  # --bpe: its class, imported when it is asked for
    "gpt2": ("gpt2", "GPT2Encoder"),
    "bert": ("wordpiece", "WordPieceEncoder"),
    "sentencepiece": ("sentencepiece", "SentencePieceEncoder"),
}


def load_encoder(bpe: str, vocab: Path) -> Encoder:
    """The encoder named ``bpe``, read from the folder ``vocab``."""
    module, name = ENCODERS[bpe]
    return getattr(import_module(f".{module}", __name__), name)(vocab)
