"""Encoders by the name that ``--bpe`` takes."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path

from ..data_folder import DataFolder
from ..errors import InputError
from .base import Encoder

ENCODERS = {  # --bpe: its class for plain files, and that for a tokenizer.json; imported when they are asked for
    "gpt2": ("gpt2.GPT2Encoder", "tokenizer_json.ByteLevelTokenizer"),
    "bert": ("tokenizer_json.WordPieceEncoder", "tokenizer_json.WordPieceTokenizer"),
    "sentencepiece": ("sentencepiece.SentencePieceEncoder", "tokenizer_json.UnigramTokenizer"),
}
# of the repository; an installed package has no folder for it, and takes one where the command is called
GPT2_FOLDER = (Path(__file__).parents[2] if __name__ == "preprocess.encoders" else Path()) / "checkpoints" / "gpt2_bpe"


def load_encoder(bpe: str, vocab: Path, recorded: str | None = None) -> Encoder:
    """Return the encoder of the folder ``vocab``: what its tokenizer.json says, or else its plain files.

    Args:
        recorded: the fingerprint of an encoder. Older data may have that of files that were followed in part.
    """
    plain, library = ENCODERS[bpe]
    followed = library if (vocab / "tokenizer.json").is_file() else plain
    for name, older in ((followed, False), (followed, True), (plain, True)) if recorded else ():
        with suppress(InputError):
            encoder = _load(name, vocab, older)
            if encoder.fingerprint() == recorded:
                return encoder
    return _load(followed, vocab)


def _load(name: str, vocab: Path, older: bool = False) -> Encoder:
    """Return an encoder; an ``older`` one follows a vocabulary's files as far as the first versions did."""
    module, _, encoder = name.partition(".")
    return getattr(import_module(f".{module}", __name__), encoder)(vocab, older)


def vocab_folder(bpe: str, vocab: Path | None) -> Path:
    """The folder of the encoder's files; that of ``gpt2`` need not be named.

    Raises:
        InputError: it is not there.
    """
    folder = GPT2_FOLDER if vocab is None and bpe == "gpt2" else vocab
    if folder is None or not folder.is_dir():
        raise InputError(
            f"--bpe {bpe}: --vocab {folder} is not a folder: name that of the backbone's vocabulary; "
            "checkpoints/download.sh gpt2_bpe fetches RoBERTa's"
        )
    return folder


def folder_encoder(data: DataFolder, bpe: str | None, vocab: Path | None) -> tuple[str, Path, str | None]:
    """What the folder was encoded with: the options where given, else its ``preprocess.json``; its fingerprint."""
    recorded = data.facts()
    name, folder = bpe or recorded.get("bpe", "gpt2"), vocab or recorded.get("vocab")
    if name not in list(ENCODERS) or not folder or not isinstance(folder, (str, Path)):
        raise InputError(f"{data.path} does not say how it was encoded: name its encoder with --bpe and --vocab")
    return name, Path(folder), recorded.get("vocab_sha256")


def check_encoder(data: DataFolder, encoder: Encoder) -> None:
    """Raises InputError unless the folder was made with the encoder: its ids would read as other text."""
    if data.symbols != encoder.symbols:
        raise InputError(
            f"{data.path}/input0/dict.txt differs from {encoder.dictionary}: name with --bpe and --vocab what the "
            "folder was made with"
        )
    made_with = encoder.fingerprint()
    if data.facts().get("vocab_sha256", made_with) != made_with:
        raise InputError(
            f"{encoder.files[0]} is not what {data.path} was made with: name that with --vocab, or preprocess "
            "the folder again"
        )
