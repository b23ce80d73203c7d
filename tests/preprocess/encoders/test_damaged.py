"""Files of encoders that are damaged, do not belong together, or are of another kind: one line that names the file."""

from __future__ import annotations

import json
import shutil

import pytest
import transformers

from .conftest import MODEL, UNCASED, write_lines
from .texts import complaint


@pytest.fixture
def copied(gpt2_files, xlmr, tmp_path):
    """A folder with the whole files of an encoder, or of BERT's tokenizer.json."""

    def copy(kind):
        folder = tmp_path / kind
        if kind in ("gpt2", "sentencepiece"):
            return shutil.copytree({"gpt2": gpt2_files, "sentencepiece": xlmr}[kind], folder)
        folder.mkdir()
        if kind == "json":
            vocab = {token: number for number, token in enumerate(UNCASED)}
            transformers.BertTokenizer(vocab=vocab).backend_tokenizer.save(str(folder / "tokenizer.json"))
        else:
            write_lines(folder / "vocab.txt", UNCASED)
        return folder

    return copy


def having(**fields):
    """A JSON object with other fields; a function gets the old value."""

    def change(content):
        old = json.loads(content)
        new = {name: value(old[name]) if callable(value) else value for name, value in fields.items()}
        return json.dumps({**old, **new}).encode()

    return change


def numbers_exchanged(content):
    pieces = list(json.loads(content).items())
    (a, one), (b, other) = pieces[70], pieces[71]
    return json.dumps({**dict(pieces), a: other, b: one}).encode()


def last_line_first(content):
    head, *lines = content.rstrip().split(b"\n")
    return b"\n".join([head, *lines[::-1]])


BPE = {"type": "BPE", "vocab": {token: number for number, token in enumerate(UNCASED)}, "merges": []}
SPECIAL = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
DAMAGES = [  # kind of folder, file, its content or what is made of it (None: it is gone), what the line names
    ("bert", "vocab.txt", None, "vocab.txt"),
    ("bert", "vocab.txt", b"the\ncat\n", "vocab.txt"),
    ("bert", "vocab.txt", SPECIAL + b"\xe9\n", "vocab.txt"),
    ("bert", "vocab.txt", SPECIAL + b"a\na\n", "vocab.txt"),
    ("bert", "vocab.txt", SPECIAL + b"a b\n", "vocab.txt"),
    ("bert", "dict.txt", b"the 1\n", "dict.txt"),
    ("json", "tokenizer.json", lambda content: content[:99], "tokenizer.json"),
    ("json", "tokenizer.json", lambda content: content.replace(b'"lowercase"', b'"lower"'), "tokenizer.json"),
    ("json", "tokenizer.json", having(pre_tokenizer=None), "pre_tokenizer"),
    ("json", "tokenizer.json", having(model=BPE), "--bpe"),
    ("json", "tokenizer_config.json", b'{"do_lower_case": false}', "do_lower_case"),
    ("json", "tokenizer_config.json", b'{"strip_accents": false}', "strip_accents"),
    ("json", "tokenizer_config.json", b'{"word_tokenizer_type": "mecab"}', "mecab"),
    ("bert", "config.json", b'{"tokenizer_class": "BertJapaneseTokenizer"}', "BertJapaneseTokenizer"),
    ("gpt2", "vocab.bpe", None, "vocab.bpe"),
    # each of these would read other text from the same sentences, or nothing, and say nothing
    ("gpt2", "vocab.bpe", b"", "vocab.bpe"),
    ("gpt2", "vocab.bpe", lambda text: text[: text.rstrip().rindex(b"\n") + 1], "vocab.bpe"),
    ("gpt2", "vocab.bpe", lambda text: text + text.split(b"\n")[1] + b"\n", "vocab.bpe"),
    ("gpt2", "vocab.bpe", last_line_first, "vocab.bpe"),
    ("gpt2", "encoder.json", numbers_exchanged, "encoder.json"),
    ("gpt2", "encoder.json", lambda text: text.replace(b'"a"', b'"aaaa"', 1), "encoder.json"),
    ("gpt2", "encoder.json", having(more=10**6), "encoder.json"),
    ("sentencepiece", MODEL, None, "*.model"),
    ("sentencepiece", "a.model", b"another", f"a.model, {MODEL}"),
    ("sentencepiece", MODEL, lambda content: content[:-3], MODEL),
    ("sentencepiece", MODEL, b"version https://git-lfs.github.com/spec/v1\n", MODEL),
    ("sentencepiece", "dict.txt", "▁the 1\n".encode(), "dict.txt"),
]


@pytest.mark.parametrize(("kind", "name", "content", "named"), DAMAGES)
def test_damaged_files(kind, name, content, named, copied):
    path = copied(kind) / name
    if content is None:
        path.unlink()
    else:
        whole = path.read_bytes() if path.exists() else None
        path.write_bytes(content(whole) if callable(content) else content)
        assert path.read_bytes() != whole
    assert named in complaint({"json": "bert"}.get(kind, kind), path.parent, "the cats 😀")
