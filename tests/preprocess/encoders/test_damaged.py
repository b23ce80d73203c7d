"""Files of encoders that are damaged, do not belong together, or are of another kind: one line that names the file."""

import json
import shutil

import pytest
import transformers

from .conftest import MODEL, UNCASED, numbered, write_lines
from .texts import complaint


@pytest.fixture
def kinds(gpt2_files, xlmr, tmp_path):
    """{kind: folder with the whole files of an encoder}; json is BERT's tokenizer.json."""
    for kind in ("bert", "json"):
        (tmp_path / kind).mkdir()
    write_lines(tmp_path / "bert" / "vocab.txt", UNCASED)
    tokenizer = transformers.BertTokenizer(vocab=numbered(UNCASED)).backend_tokenizer
    tokenizer.save(str(tmp_path / "json" / "tokenizer.json"))
    for kind, folder in {"gpt2": gpt2_files, "sentencepiece": xlmr}.items():
        shutil.copytree(folder, tmp_path / kind)
    return tmp_path


def having(**fields):
    return lambda content: json.dumps({**json.loads(content), **fields}).encode()


def numbers_exchanged(content):
    pieces = list(json.loads(content).items())
    (a, one), (b, other) = pieces[70], pieces[71]
    return json.dumps({**dict(pieces), a: other, b: one}).encode()


BPE = {"type": "BPE", "vocab": numbered(UNCASED), "merges": []}
SPECIAL = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
DAMAGES = [  # kind of folder, file, its content or what is made of it (None: it is gone), what the line names
    ("bert", "vocab.txt", b"the\ncat\n", "vocab.txt"),
    ("bert", "vocab.txt", SPECIAL + b"a\na\n", "vocab.txt"),
    ("json", "tokenizer.json", lambda content: content[:99], "tokenizer.json"),
    ("json", "tokenizer.json", lambda content: content.replace(b'"lowercase"', b'"lower"'), "tokenizer.json"),
    ("json", "tokenizer.json", having(model=BPE), "--bpe"),
    ("json", "tokenizer_config.json", b'{"do_lower_case": false}', "do_lower_case"),
    ("json", "tokenizer_config.json", b'{"word_tokenizer_type": "mecab"}', "mecab"),
    # settings that plain files do not follow
    ("bert", "tokenizer_config.json", b'{"extra_special_tokens": ["<e2>"]}', "<e2>"),
    ("bert", "tokenizer_config.json", b'{"never_split": ["the"]}', "never_split"),
    ("gpt2", "tokenizer_config.json", b'{"add_prefix_space": true}', "add_prefix_space"),
    ("sentencepiece", "tokenizer_config.json", b'{"tokenizer_class": "AlbertTokenizer"}', "AlbertTokenizer"),
    ("gpt2", "vocab.bpe", None, "vocab.bpe"),
    # each of these would read other text from the same sentences, or nothing, and say nothing
    ("gpt2", "vocab.bpe", lambda text: text[: text.rstrip().rindex(b"\n") + 1], "vocab.bpe"),
    ("gpt2", "vocab.bpe", lambda text: text + text.split(b"\n")[1] + b"\n", "vocab.bpe"),
    ("gpt2", "encoder.json", numbers_exchanged, "encoder.json"),
    ("gpt2", "encoder.json", having(more=10**6), "encoder.json"),
    ("sentencepiece", "a.model", b"another", f"a.model, {MODEL}"),
    ("sentencepiece", MODEL, b"version https://git-lfs.github.com/spec/v1\n", MODEL),
    ("sentencepiece", "dict.txt", "▁the 1\n".encode(), "dict.txt"),
]


@pytest.mark.parametrize(("kind", "name", "content", "named"), DAMAGES)
def test_damaged_files(kind, name, content, named, kinds):
    path = kinds / kind / name
    if content is None:
        path.unlink()
    else:
        whole = path.read_bytes() if path.exists() else None
        path.write_bytes(content(whole) if callable(content) else content)
        assert path.read_bytes() != whole
    assert named in complaint({"json": "bert"}.get(kind, kind), path.parent, "the cats 😀")
