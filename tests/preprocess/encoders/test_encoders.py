"""What each encoder adds to the ids of its family (test_families.py): decoding, dictionaries, settings, odd pieces."""

import pytest
import transformers
from fairseq.data import Dictionary
from fairseq.data.encoders.gpt2_bpe_utils import get_encoder
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig
from hypothesis import example, given, settings
from hypothesis import strategies as st

from preprocess.encoders import hugging_face, load_encoder
from tests.checkpoints.hf_folders import write_json

from .conftest import CASED, MODEL, UNCASED, numbered, train, write_lines
from .texts import LITERAL_XLMR, TRICKY, complaint, ids_of, symbols_of

LIKELY = st.text(st.sampled_from("theca andring,.;!?'\"öéà½12中文字😀▁\t\x01\u00a0"), max_size=20)
UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
GPT2_TRICKY = [
    "the    long   runs of    spaces      end   ",
    "it's we've I'll they're he'd I'm can't 'tis 'S",
    "tab\there \x0b\x0c \x85 \xa0 \u2003 \u200b spaces",
    "controls \x00\x01\x1c\x1d\x1e\x1f\x7f end",
    "1234567890 1,000.50 ½ ² Ⅷ 1a2b",
    "</s> <s> <pad> <unk> <|endoftext|>",
    "\ufeffbom \ufffd replacement \U000e0001 tag \U0010ffff last",
    "new letters \U00031350 \U0001e4d0 \u0870 \ua7d0",
]


@pytest.fixture(scope="module")
def gpt2(gpt2_files):
    """Our encoder, and ids by fairseq's own, looked up in dict.txt."""
    encoder = load_encoder("gpt2", gpt2_files)
    number = {symbol: i for i, symbol in enumerate(encoder.symbols)}
    theirs = get_encoder(gpt2_files / "encoder.json", gpt2_files / "vocab.bpe")
    return encoder, lambda line: [number[str(i)] for i in theirs.encode(line.strip())]


@settings(max_examples=400)
@given(
    st.text() | st.text(st.characters(max_codepoint=127)) | st.text(st.sampled_from("the er in 'stm aC0\t\x0b\x1f.é😀"))
)
def test_gpt2_as_fairseq_and_back(gpt2, line):
    encoder, fairseq_ids = gpt2
    rows = ids_of(encoder, [line, *GPT2_TRICKY])
    assert rows == [fairseq_ids(line) for line in (line, *GPT2_TRICKY)]
    assert encoder.decode(rows[:1]) == [line.strip()]


@pytest.fixture(scope="module")
def sentencepiece(xlmr, tmp_path_factory):
    """Our encoder, and ids by fairseq's own with the dictionary that we derived."""
    encoder = load_encoder("sentencepiece", xlmr)
    path = tmp_path_factory.mktemp("dictionary") / "dict.txt"
    path.write_bytes(encoder.dictionary_bytes())
    dictionary = Dictionary.load(str(path))
    bpe = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=str(xlmr / MODEL)))

    def fairseq_ids(line):
        return dictionary.encode_line(bpe.encode(line.strip()), append_eos=False, add_if_not_exist=False).tolist()

    return encoder, fairseq_ids


@settings(max_examples=200)
@example(line=LITERAL_XLMR)
@example(line="c\x85t")
@given(line=UNICODE | LIKELY)
def test_sentencepiece_as_its_model_and_fairseq_and_back(sentencepiece, line):
    encoder, fairseq_ids = sentencepiece
    rows = ids_of(encoder, [line])
    assert rows == [[number + 1 if number else 3 for number in encoder.model.encode(line.strip())]]
    if "\x85" not in line:  # fairseq joins the pieces with spaces and splits again: such a piece comes apart
        assert rows == [fairseq_ids(line)]
    if 3 not in rows[0]:
        assert ids_of(encoder, encoder.decode(rows)) == rows


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}, "the 𝄞"),
        ({"user_defined_symbols": ["<pad>"]}, "the <pad>"),  # no text becomes padding or the end of a sentence
    ],
)
def test_model_that_is_not_laid_out_as_xlmr(options, text, tmp_path):
    assert "dict.txt" in complaint("sentencepiece", train(tmp_path, **options))
    write_lines(tmp_path / "dict.txt", ["▁the 9", "▁ 5", "<mask> 1"])  # then it is as good as any
    assert symbols_of(load_encoder("sentencepiece", tmp_path), text) == ["▁the", "▁", "<unk>"]


def test_text_of_bert(bert):
    encoder = load_encoder("bert", bert)
    assert encoder.decode(ids_of(encoder, ["the cating  (cats)", "", "😀"])) == ["the cating ( cats )", "", "<unk>"]


@pytest.mark.parametrize("lowercase", [True, False])
def test_settings_of_a_tokenizer(lowercase, tmp_path):
    """They hold whatever the pieces look like, also beside a vocab.txt; tokenizer.json neither cuts nor pads."""
    tokens = [*(CASED if lowercase else UNCASED), "##字"]
    write_lines(tmp_path / "vocab.txt", tokens)
    settings = {"do_lower_case": lowercase, "tokenize_chinese_chars": False}
    write_json(tmp_path / "tokenizer_config.json", settings)
    plain = load_encoder("bert", tmp_path)
    assert symbols_of(plain, "É 中字") == ["e" if lowercase else "<unk>", "中", "##字"]
    backend = transformers.BertTokenizer(vocab=numbered(tokens), **settings).backend_tokenizer
    backend.enable_truncation(4)
    backend.enable_padding(length=8)
    backend.save(str(tmp_path / "tokenizer.json"))
    encoder = load_encoder("bert", tmp_path)
    assert encoder.files == [tmp_path / "tokenizer.json", tmp_path / "tokenizer_config.json"]
    assert encoder.dictionary_bytes() == plain.dictionary_bytes()
    assert ids_of(encoder, TRICKY) == ids_of(plain, TRICKY)


def test_words_added_to_tokenizer_json_are_found_as_by_transformers(tmp_path):
    tokenizer = transformers.BertTokenizer(vocab=numbered(UNCASED))
    tokenizer.add_tokens(["<e1>"])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<e2>"]})
    tokenizer.save_pretrained(tmp_path)
    line = "the <e1> <e2> cat<e1>"
    encoder = load_encoder("bert", tmp_path)
    order = hugging_face.fairseq_order(hugging_face.read_vocabulary(tmp_path))
    for text, more in ((line, {}), ("[SEP]", {"split_special_tokens": True})):
        expected = tokenizer.encode(text, add_special_tokens=False, **more)
        assert ids_of(encoder, [text]) == [[order.index(number) for number in expected]]
    assert symbols_of(encoder, line) == ["the", "<e1>", "<e2>", "cat", "<e1>"]


@pytest.mark.parametrize(("bpe", "name"), [("bert", "vocab.txt"), ("sentencepiece", MODEL)])
def test_dictionary_that_is_derived_or_there(bpe, name, bert, xlmr, tmp_path):
    """Derived, it is what convert_hf writes; one in another order, without a newline at its end, gives its numbers."""
    folder = {"bert": bert, "sentencepiece": xlmr}[bpe]
    encoder = load_encoder(bpe, folder)
    vocabulary = hugging_face.read_vocabulary(folder)
    symbols = hugging_face.dictionary_symbols(vocabulary, hugging_face.fairseq_order(vocabulary))
    assert encoder.dictionary_bytes() == "".join(f"{symbol} 1\n" for symbol in symbols).encode()
    (tmp_path / name).write_bytes((folder / name).read_bytes())
    lines = encoder.dictionary_bytes().split(b"\n")[:-1]
    (tmp_path / "dict.txt").write_bytes(b"\n".join(lines[::-1]))
    other = load_encoder(bpe, tmp_path)
    assert other.dictionary_bytes() == (tmp_path / "dict.txt").read_bytes()
    assert [symbols_of(other, line) for line in TRICKY] == [symbols_of(encoder, line) for line in TRICKY]
