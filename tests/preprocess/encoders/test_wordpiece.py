"""--bpe bert: the ids of transformers' BERT tokenizers, moved to where convert_hf.py moves the embeddings."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints.convert_hf import write_dictionary
from preprocess.encoders import hugging_face, load_encoder

from .conftest import CASED, UNCASED, write_lines
from .texts import LITERAL_XLMR, TRICKY, complaint, fingerprint_of, ids_of, symbols_of

transformers = pytest.importorskip("transformers")

ROOT = Path(__file__).resolve().parents[3]
MINILM = [path for path in (ROOT / "quickstart" / "minilm-hf",) if path.is_dir()]
LINES = [*TRICKY, LITERAL_XLMR]
UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LIKELY = st.text(st.sampled_from("theca sTHECAing[]SEPMÉé#'\"!.\t\x01\u00a0中字😀"), max_size=20)


def moved(folder: Path, ids: list[int]) -> list[int]:
    """transformers' ids -> fairseq's, by the order in which convert_hf.py puts the embeddings."""
    order = hugging_face.fairseq_order(hugging_face.read_vocabulary(folder))
    return [order.index(number) for number in ids]


def transformers_ids(tokenizer, line: str) -> list[int]:
    # Without split_special_tokens transformers takes "[SEP]" in a text for the special token (as below).
    return tokenizer.encode(line.strip(), add_special_tokens=False, split_special_tokens=True)


@pytest.fixture(scope="module")
def fast(bert):
    tokens = (bert / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return transformers.BertTokenizer(vocab=vocabulary, do_lower_case=bert.name == "uncased")


@pytest.fixture(scope="module")
def slow(bert):
    """The original's code in Python, independent of the `tokenizers` library."""
    legacy = pytest.importorskip("transformers.models.bert.tokenization_bert_legacy")
    return legacy.BertTokenizerLegacy(str(bert / "vocab.txt"), do_lower_case=bert.name == "uncased")


def slow_ids(tokenizer, line: str) -> list[int]:
    return tokenizer.convert_tokens_to_ids(tokenizer._tokenize(line.strip(), split_special_tokens=True))


def test_ids_of_transformers(bert, fast):
    expected = [moved(bert, transformers_ids(fast, line)) for line in LINES]
    assert ids_of(load_encoder("bert", bert), LINES) == expected


def test_ids_of_the_python_tokenizer(bert, slow):
    """On composed text: it alone composes characters (NFC), which shows where accents are kept."""
    lines = [unicodedata.normalize("NFC", line) for line in LINES]
    assert ids_of(load_encoder("bert", bert), lines) == [moved(bert, slow_ids(slow, line)) for line in lines]


@settings(max_examples=100)
@given(line=UNICODE | LIKELY)
def test_any_text(bert, fast, encoder, line):
    assert ids_of(encoder, [line]) == [moved(bert, transformers_ids(fast, line))]


@settings(max_examples=100)
@given(line=LIKELY)
def test_likely_text_as_the_python_tokenizer(bert, slow, encoder, line):
    """Not on all of Unicode: the Python code drops characters that its Unicode version does not know yet."""
    assert ids_of(encoder, [line]) == [moved(bert, slow_ids(slow, line))]


@pytest.fixture(scope="module")
def encoder(bert):
    return load_encoder("bert", bert)


def test_special_tokens_in_the_text_are_text(encoder, fast, bert):
    sep = "sep" if bert.name == "uncased" else "SEP"
    assert symbols_of(encoder, "the [SEP]") == ["the", "[", sep, "]"]
    assert fast.encode("the [SEP]", add_special_tokens=False)[-1] == fast.sep_token_id  # transformers' default


def test_unknown_words(encoder):
    assert symbols_of(encoder, "the 😀 " + "x" * 101) == ["the", "<unk>", "<unk>"]
    assert ids_of(encoder, ["😀"]) == [[3]]


def test_decode(encoder, bert):
    assert encoder.decode(ids_of(encoder, ["the cating  (cats)", "", "😀"])) == ["the cating ( cats )", "", "<unk>"]


@settings(max_examples=100)
@given(line=LIKELY)
def test_decoded_text_has_the_same_ids(encoder, line):
    rows = [[number for number in ids_of(encoder, [line])[0] if number != 3]]
    assert ids_of(encoder, encoder.decode(rows)) == rows


# The dictionary


def test_derived_dictionary_is_what_convert_hf_writes(bert, encoder, tmp_path):
    vocabulary = hugging_face.read_vocabulary(bert)
    symbols = hugging_face.dictionary_symbols(vocabulary, hugging_face.fairseq_order(vocabulary))
    write_dictionary(symbols, tmp_path / "dict.txt")
    assert encoder.dictionary_bytes() == (tmp_path / "dict.txt").read_bytes()
    assert not encoder.dictionary.exists() and encoder.files == [bert / "vocab.txt"]


def test_dictionary_that_is_there(bert, encoder, tmp_path):
    write_lines(tmp_path / "vocab.txt", (bert / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1])
    lines = encoder.dictionary_bytes().split(b"\n")[:-1]
    (tmp_path / "dict.txt").write_bytes(b"\n".join(lines[::-1]))  # another order, no newline at the end
    other = load_encoder("bert", tmp_path)
    assert other.dictionary_bytes() == (tmp_path / "dict.txt").read_bytes()
    assert other.files == [tmp_path / "vocab.txt", tmp_path / "dict.txt"]
    last = len(lines) + 3
    known = [[last + 4 - number if number > 3 else number for number in row] for row in ids_of(encoder, LINES)]
    assert ids_of(other, LINES) == known


# tokenizer.json and the settings


def save(folder: Path, tokens=UNCASED, lowercase=True, **changes) -> Path:
    """Writes tokenizer.json as transformers does, which also cuts at 4 tokens and pads to 8; then changes fields."""
    vocabulary = {token: number for number, token in enumerate(tokens)}
    backend = transformers.BertTokenizer(vocab=vocabulary, do_lower_case=lowercase).backend_tokenizer
    backend.enable_truncation(4)
    backend.enable_padding(length=8)
    write_json(folder / "tokenizer.json", {**json.loads(backend.to_str()), **changes})
    return folder


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize("lowercase", [True, False])
def test_tokenizer_json(lowercase, tmp_path):
    """Its own setting holds, whatever the pieces look like; it neither cuts nor pads."""
    tokens = CASED if lowercase else UNCASED
    write_lines(tmp_path / "vocab.txt", tokens)
    write_json(tmp_path / "tokenizer_config.json", {"do_lower_case": lowercase})
    plain = load_encoder("bert", tmp_path)
    encoder = load_encoder("bert", save(tmp_path, tokens, lowercase))
    assert encoder.files == [tmp_path / "tokenizer.json", tmp_path / "tokenizer_config.json"]
    assert encoder.dictionary_bytes() == plain.dictionary_bytes()
    assert ids_of(encoder, LINES) == ids_of(plain, LINES)
    assert symbols_of(encoder, "The")[0] == ("the" if lowercase else "<unk>")


def test_words_added_to_tokenizer_json_are_found_as_by_transformers(tmp_path):
    tokenizer = transformers.BertTokenizer(vocab={token: number for number, token in enumerate(UNCASED)})
    tokenizer.add_tokens(["<e1>"])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<e2>"]})
    tokenizer.save_pretrained(tmp_path)
    line = "the <e1> <e2> cat<e1>"
    encoder = load_encoder("bert", tmp_path)
    assert ids_of(encoder, [line]) == [moved(tmp_path, tokenizer.encode(line, add_special_tokens=False))]
    assert symbols_of(encoder, line) == ["the", "<e1>", "<e2>", "cat", "<e1>"]
    assert ids_of(encoder, ["[SEP]"]) == [moved(tmp_path, transformers_ids(tokenizer, "[SEP]"))]
    older = load_encoder("bert", tmp_path, fingerprint_of(encoder.files))  # which left special ones as text
    assert symbols_of(older, line) == ["the", "<e1>", "<", "e", "##2", ">", "cat", "<e1>"]


def test_added_word_that_is_special_to_fairseq(tmp_path):
    tokenizer = transformers.BertTokenizer(vocab={token: number for number, token in enumerate(UNCASED)})
    tokenizer.add_tokens(["</s>"])
    tokenizer.save_pretrained(tmp_path)
    assert "'</s>' would stand twice" in complaint("bert", tmp_path)
    write_lines(tmp_path / "dict.txt", [f"{token} 1" for token in UNCASED])
    assert symbols_of(load_encoder("bert", tmp_path), "the </s> cat") == ["the", "<unk>", "cat"]


@pytest.mark.parametrize(
    ("config", "pieces"),
    [
        ({}, ["é", "中", "##字"]),  # whose piece is there
        ({"do_lower_case": None}, ["é", "中", "##字"]),
        ({"do_lower_case": True}, ["e", "中", "##字"]),  # as transformers
        ({"strip_accents": True}, ["e", "中", "##字"]),
        ({"do_lower_case": False}, ["<unk>", "中", "##字"]),
    ],
)
def test_settings_beside_vocab_txt(config, pieces, tmp_path):
    write_lines(tmp_path / "vocab.txt", [*UNCASED, "##字", "é"])
    write_json(tmp_path / "tokenizer_config.json", {"tokenize_chinese_chars": False, **config})
    assert symbols_of(load_encoder("bert", tmp_path), "É 中字") == pieces


# The real vocabulary


@pytest.mark.skipif(not MINILM, reason="MiniLM's tokenizer is not here")
def test_minilm():
    folder = MINILM[0]
    tokenizer = transformers.BertTokenizer.from_pretrained(str(folder), local_files_only=True)
    order = hugging_face.fairseq_order(hugging_face.read_vocabulary(folder))
    number = {theirs: ours for ours, theirs in enumerate(order)}
    lines = [*TRICKY[:-3], "A gorgeous, witty, seductive movie.", "It's a charming and often affecting journey . " * 30]
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    expected = [[number[i] for i in backend.encode(line.strip(), add_special_tokens=False).ids] for line in lines]
    encoder = load_encoder("bert", folder)
    assert ids_of(encoder, lines) == expected
    assert len(encoder.symbols) == 30521  # 30522 with <mask>, which the task appends
    assert encoder.decode(ids_of(encoder, ["An unputdownable movie."])) == ["an unputdownable movie ."]


# Bad input


def test_missing_vocabulary(tmp_path):
    assert "has no tokenizer.json or vocab.txt" in complaint("bert", tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"the\ncat\n", "special tokens are not all there"),
        (b"", "special tokens are not all there"),
        ("[PAD] [UNK] [CLS] [SEP] [MASK] é".encode("latin-1").replace(b" ", b"\n"), "utf-8"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\na\n", "token ids"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na b\n", "has a space"),
    ],
)
def test_damaged_vocab_txt(content, reason, tmp_path):
    (tmp_path / "vocab.txt").write_bytes(content)
    message = complaint("bert", tmp_path)
    assert reason in message and "vocab.txt" in message


def test_damaged_tokenizer_json(tmp_path):
    content = (save(tmp_path) / "tokenizer.json").read_text(encoding="utf-8")
    for damaged in (content[:99], "", "[]", '{"model": {"vocab": {}}}', content.replace('"lowercase"', '"lower"')):
        (tmp_path / "tokenizer.json").write_text(damaged, encoding="utf-8")
        assert "tokenizer.json" in complaint("bert", tmp_path)


def test_tokenizer_json_of_another_kind(tmp_path):
    assert "pre_tokenizer" in complaint("bert", save(tmp_path, pre_tokenizer=None))
    bpe = {"type": "BPE", "vocab": {token: number for number, token in enumerate(UNCASED)}, "merges": []}
    assert "--bpe" in complaint("bert", save(tmp_path, model=bpe))


def test_settings_that_contradict_each_other(tmp_path):
    write_json(save(tmp_path) / "tokenizer_config.json", {"do_lower_case": False})
    assert "do_lower_case" in complaint("bert", tmp_path)
    write_json(tmp_path / "tokenizer_config.json", {"strip_accents": False})
    assert "strip_accents" in complaint("bert", tmp_path)
    write_json(tmp_path / "tokenizer_config.json", {"strip_accents": True})  # which null means, in lower case
    assert symbols_of(load_encoder("bert", tmp_path), "É") == ["e"]


def test_damaged_settings(tmp_path):
    for damaged in ("{", "[]"):
        (save(tmp_path) / "tokenizer_config.json").write_text(damaged, encoding="utf-8")
        assert "tokenizer_config.json is not a tokenizer's settings" in complaint("bert", tmp_path)


def test_unknown_token_that_the_vocabulary_lacks(tmp_path):
    model = {**json.loads((save(tmp_path) / "tokenizer.json").read_text())["model"], "unk_token": "[unknown]"}
    assert "unk_token" in complaint("bert", save(tmp_path, model=model), "😀")


def test_dictionary_of_another_model(tmp_path):
    write_lines(tmp_path / "vocab.txt", UNCASED)
    write_lines(tmp_path / "dict.txt", ["the 1"])
    assert symbols_of(load_encoder("bert", tmp_path), "the 😀") == ["the", "<unk>"]
    message = complaint("bert", tmp_path, "the cats")
    assert f"{tmp_path / 'dict.txt'} lacks the piece 'cat' of 'the cats'" in message and "--vocab" in message


def test_a_zeroed_block(bert, tmp_path):
    (tmp_path / "vocab.txt").write_bytes((bert / "vocab.txt").read_bytes().replace(b"cat", bytes(3)))
    assert "has a space or a NUL; dict.txt cannot hold it" in complaint("bert", tmp_path)
