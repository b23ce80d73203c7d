"""Ids equal to fairseq's own GPT-2 BPE, piece by piece, on a small vocabulary and on RoBERTa's."""

import json
import shutil
from pathlib import Path

import pytest
from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode, get_encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from preprocess.dictionary import EOS
from preprocess.encoders import load_encoder
from preprocess.encoders.gpt2 import ANY_WORD, ASCII_WORD
from preprocess.errors import InputError
from tests.preprocess.encoders.texts import complaint

SHARED = Path(__file__).parents[4] / "shared" / "data" / "gpt2_bpe"
MERGES = [
    "Ġ t",
    "h e",
    "Ġt he",
    "e r",
    "Ġ a",
    "i n",
    "Ġ Ġ",
    "ĠĠ ĠĠ",
    "Ã ©",
    "ð Ł",
    "ðŁ ĺ",
    "ĠC af",
    "a f",
    "C af",
    "Ġ C",
]
MERGES.remove("ĠC af")
TRICKY = [
    "",
    "   ",
    "plain words, and more.",
    "the    long   runs of    spaces      end   ",
    "it's we've I'll they're he'd I'm can't 'tis 'S",
    "café naïve Ångström e\u0301 ñ",
    "😀 👩\u200d👩\u200d👧 🏳️\u200d🌈 flags 🇩🇪",
    "日本語 한국어 العربية हिन्दी",
    'csv "quotes" and ""doubled"" ones, \'single\'',
    "tab\there \x0b\x0c \x85 \xa0 \u2003 \u200b spaces",
    "controls \x00\x01\x1c\x1d\x1e\x1f\x7f end",
    "1234567890 1,000.50 ½ ² Ⅷ 1a2b",
    "</s> <s> <pad> <unk> <|endoftext|>",
    "\ufeffbom \ufffd replacement \U000e0001 tag \U0010ffff last",
    "new letters \U00031350 \U0001e4d0 \u0870 \ua7d0",
]


@pytest.fixture(scope="session")
def small_vocab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    pieces = [*bytes_to_unicode().values(), *("".join(merge.split()) for merge in MERGES)]
    (folder / "encoder.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8")
    (folder / "vocab.bpe").write_text("#version: 0.2\n" + "\n".join(MERGES) + "\n", encoding="utf-8")
    order = sorted(range(len(pieces)), key=lambda i: (i * 7919) % len(pieces))  # ids of the dictionary differ
    (folder / "dict.txt").write_text("".join(f"{i} 1\n" for i in order), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def small(small_vocab):
    return load_encoder("gpt2", small_vocab), get_encoder(small_vocab / "encoder.json", small_vocab / "vocab.bpe")


def ours(encoder, lines):
    ids, lengths = encoder.encode(lines)
    rows, start = [], 0
    for length in lengths:
        rows.append(ids[start : start + length].tolist())
        start += length
    assert start == len(ids)
    return rows


def theirs(encoder, reference, lines):
    """fairseq's way: GPT-2 ids as text, looked up in dict.txt, ``</s>`` at the end."""
    return [[*(encoder.symbols.index(str(i)) for i in reference.encode(line.strip())), EOS] for line in lines]


def test_tricky_text(small):
    assert ours(small[0], TRICKY) == theirs(*small, TRICKY)


@settings(max_examples=300)
@given(st.lists(st.text(), max_size=5))
def test_any_text(small, lines):
    assert ours(small[0], lines) == theirs(*small, lines)


@settings(max_examples=300)
@given(st.text(st.sampled_from("the er in 'stm   aC0\t\n\x0b\x1c\x1f.é😀")))
def test_text_that_meets_the_merges(small, line):
    assert ours(small[0], [line, line]) == theirs(*small, [line, line])


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_words_are_the_same_by_either_pattern(line):
    assert ASCII_WORD.findall(line) == ANY_WORD.findall(line)


@settings(max_examples=100)
@given(st.text())
def test_decoding_gives_the_text_back(small, line):
    encoder = small[0]
    assert encoder.decode([ours(encoder, [line])[0][:-1]]) == [line.strip()]


def test_the_word_cache_may_be_emptied(small_vocab, monkeypatch):
    monkeypatch.setattr("preprocess.encoders.gpt2.CACHED_WORDS", 3)
    encoder = load_encoder("gpt2", small_vocab)
    first = ours(encoder, TRICKY)
    assert [ours(encoder, [line])[0] for line in TRICKY] == first
    assert len(encoder.known) < 40


def test_hugging_face_names_of_the_same_files(small, small_vocab, tmp_path):
    for old, new in (("encoder.json", "vocab.json"), ("vocab.bpe", "merges.txt"), ("dict.txt", "dict.txt")):
        (tmp_path / new).write_bytes((small_vocab / old).read_bytes())
    assert ours(load_encoder("gpt2", tmp_path), TRICKY) == ours(small[0], TRICKY)


def test_a_dictionary_that_lacks_pieces(small_vocab, tmp_path):
    for name in ("encoder.json", "vocab.bpe"):
        (tmp_path / name).write_bytes((small_vocab / name).read_bytes())
    (tmp_path / "dict.txt").write_text("0 1\n1 1\n")
    with pytest.raises(InputError, match=r"dict.txt lacks the piece '\d+' of 'words'.*--vocab"):
        load_encoder("gpt2", tmp_path).encode(["words"])


@pytest.mark.parametrize("name", ["encoder.json", "vocab.bpe", "dict.txt"])
def test_missing_and_damaged_files(small_vocab, tmp_path, name):
    for other in ("encoder.json", "vocab.bpe", "dict.txt"):
        (tmp_path / other).write_bytes((small_vocab / other).read_bytes())
    (tmp_path / name).write_bytes(b"{not json\n")
    with pytest.raises(InputError, match=name):
        load_encoder("gpt2", tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match=name):
        load_encoder("gpt2", tmp_path)


def rewritten(source, folder, name, change):
    shutil.copytree(source, folder)
    text = (folder / name).read_text(encoding="utf-8")
    assert change(text) != text
    (folder / name).write_text(change(text), encoding="utf-8")
    return folder


def numbers_exchanged(text):
    pieces = list(json.loads(text).items())
    (a, one), (b, other) = pieces[70], pieces[71]
    return json.dumps({**dict(pieces), a: other, b: one})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("vocab.bpe", lambda text: "", "nothing is merged to the piece"),
        ("vocab.bpe", lambda text: text[: text.rstrip().rindex("\n") + 1], "nothing is merged to the piece"),
        ("vocab.bpe", lambda text: text + text.split("\n")[1] + "\n", "stands there twice"),
        ("vocab.bpe", lambda text: "\n".join([text.split("\n")[0], *text.split("\n")[:0:-1]]), "not numbered as bytes"),
        ("encoder.json", numbers_exchanged, "not numbered as bytes and merges in their order"),
        ("encoder.json", lambda text: text.replace('"a"', '"aaaa"', 1), "the piece 'a' has no number"),
        ("encoder.json", lambda text: json.dumps([1]), "not numbered from 0 on, each once"),
        ("encoder.json", lambda text: json.dumps({**json.loads(text), "more": 10**6}), "not numbered from 0 on"),
        ("encoder.json", lambda text: "[" * 10**5, "are not GPT-2's encoder"),
    ],
)
def test_files_that_do_not_belong_together(small_vocab, tmp_path, name, change, message):
    """Each would read other text from the same sentences, or none, without a word."""
    folder = rewritten(small_vocab, tmp_path / "vocab", name, change)
    assert message in complaint("gpt2", folder)


def test_special_pieces_need_no_merge(small_vocab, tmp_path):
    added = lambda text: json.dumps({**json.loads(text), "<|endoftext|>": len(json.loads(text))})  # noqa: E731
    folder = rewritten(small_vocab, tmp_path / "vocab", "encoder.json", added)
    load_encoder("gpt2", folder).encode(TRICKY)


@pytest.mark.skipif(not SHARED.is_dir(), reason="RoBERTa's vocabulary is not here")
def test_robertas_vocabulary():
    encoder = load_encoder("gpt2", SHARED)
    reference = get_encoder(SHARED / "encoder.json", SHARED / "vocab.bpe")
    review = (SHARED.parent / "text" / "mr" / "test.tsv").read_text(encoding="utf-8").split("\n")[:300]
    numbers = {symbol: i for i, symbol in enumerate(encoder.symbols)}
    lines = [*TRICKY, *review]
    assert ours(encoder, lines) == [[*(numbers[str(i)] for i in reference.encode(t.strip())), EOS] for t in lines]
