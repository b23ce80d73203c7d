"""--bpe sentencepiece: the ids of fairseq's own encoder and of transformers' XLM-R tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from checkpoints.convert_hf import write_dictionary
from preprocess.encoders import hugging_face, load_encoder

from .conftest import SENTENCES, train, write_lines
from .texts import LITERAL_XLMR, TRICKY, XLMR_SPECIAL, complaint, ids_of, symbols_of

sentencepiece = pytest.importorskip("sentencepiece")

MODEL = "sentencepiece.bpe.model"
# fairseq joins the pieces with spaces and splits again: a piece with a white-space character in it comes apart.
# SentencePiece leaves one such character in the text (U+0085), all others become spaces or are dropped.
UNICODE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x85"), max_size=20)
# transformers normalizes a character together with the marks that combine with it, and loses those of "½́" or "▁́".
NO_MARKS = st.text(
    st.characters(exclude_categories=["Cs", "Mn", "Mc", "Me"], exclude_characters="\x85\u200d"), max_size=20
)
LIKELY = st.text(st.sampled_from("theca andring,.;!?'\"öéà½12中文字😀▁"), max_size=20)


@pytest.fixture(scope="module")
def encoder(xlmr):
    return load_encoder("sentencepiece", xlmr)


@pytest.fixture(scope="module")
def fairseq_ids(xlmr, encoder, tmp_path_factory):
    """fairseq's own way from text to ids, with the dictionary that we derived."""
    from fairseq.data import Dictionary
    from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig

    path = tmp_path_factory.mktemp("dictionary") / "dict.txt"
    path.write_bytes(encoder.dictionary_bytes())
    dictionary = Dictionary.load(str(path))
    assert dictionary.symbols == encoder.symbols
    bpe = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=str(xlmr / MODEL)))
    return lambda line: dictionary.encode_line(
        bpe.encode(line.strip()), append_eos=False, add_if_not_exist=False
    ).tolist()


@pytest.fixture(scope="module")
def transformers_ids(xlmr):
    """XLMRobertaTokenizer: the `tokenizers` library's Unigram, made from the model's pieces and normalization."""
    transformers = pytest.importorskip("transformers")
    model = sentencepiece.SentencePieceProcessor(model_file=str(xlmr / MODEL))
    pieces = [(model.id_to_piece(i), model.get_score(i)) for i in range(3, model.get_piece_size())]
    charsmap = field(field((xlmr / MODEL).read_bytes(), 3), 2)  # of the normalizer
    tokenizer = transformers.XLMRobertaTokenizer(
        vocab=[*((special, 0.0) for special in XLMR_SPECIAL[:4]), *pieces, ("<mask>", 0.0)],
        _spm_precompiled_charsmap=charsmap,
    )
    return lambda line: tokenizer.encode(line.strip(), add_special_tokens=False)


def field(message: bytes, wanted: int) -> bytes:
    """The last field of this number in a protocol buffer (transformers would need the protobuf package)."""
    at, value = 0, b""

    def varint() -> int:
        nonlocal at
        start = at
        while message[at] & 0x80:
            at += 1
        at += 1
        return sum((byte & 0x7F) << 7 * i for i, byte in enumerate(message[start:at]))

    while at < len(message):
        number, wire = divmod(varint(), 8)
        size = {0: None, 1: 8, 2: None, 5: 4}[wire]
        if wire == 0:
            varint()
            continue
        size = varint() if size is None else size
        value = message[at : at + size] if number == wanted else value
        at += size
    return value


def test_ids_of_fairseq(encoder, fairseq_ids):
    lines = [*SENTENCES, *TRICKY, LITERAL_XLMR]
    assert ids_of(encoder, lines) == [fairseq_ids(line) for line in lines]


def test_ids_of_transformers(encoder, transformers_ids):
    lines = [*SENTENCES, *TRICKY]
    assert ids_of(encoder, lines) == [transformers_ids(line) for line in lines]


@settings(max_examples=100)
@given(line=UNICODE | LIKELY)
def test_any_text_as_fairseq(encoder, fairseq_ids, line):
    assert ids_of(encoder, [line]) == [fairseq_ids(line)]


@settings(max_examples=100)
@given(line=NO_MARKS | LIKELY)
def test_any_text_as_transformers(encoder, transformers_ids, line):
    assume(not any(special in line for special in XLMR_SPECIAL))
    assert ids_of(encoder, [line]) == [transformers_ids(line)]


def test_ids_are_those_of_the_model_plus_one(encoder):
    model = encoder.model
    lines = [line.replace("😀", "") for line in SENTENCES]
    assert ids_of(encoder, lines) == [[number + 1 for number in row] for row in model.encode(lines)]
    assert symbols_of(encoder, "the 𝄞")[-1] == "<unk>" and ids_of(encoder, ["𝄞"])[0][-1] == 3


def test_special_tokens_in_the_text_are_text(encoder, transformers_ids):
    """As in SentencePiece and fairseq; transformers takes them for the special tokens, even if told to split them."""
    symbols = symbols_of(encoder, "the </s>")
    assert "</s>" not in symbols and "s" in symbols
    assert transformers_ids("the </s>")[-1] == 2


def test_where_transformers_differs_from_sentencepiece(encoder, transformers_ids):
    for line in ("½\u0301", "c\x85t"):
        (ours,) = ids_of(encoder, [line])
        assert ours == [number + 1 if number else 3 for number in encoder.model.encode(line)]
        assert ours != transformers_ids(line)


def test_decode(encoder):
    lines = [*SENTENCES[:4], ""]
    assert encoder.decode(ids_of(encoder, lines)) == lines
    assert encoder.decode(ids_of(encoder, ["the 𝄞 cat"])) == ["the  \u2047  cat"]  # SentencePiece's mark


@settings(max_examples=100)
@given(line=LIKELY)
def test_decoded_text_has_the_same_ids(encoder, line):
    rows = ids_of(encoder, [line])
    assume(3 not in rows[0])
    assert ids_of(encoder, encoder.decode(rows)) == rows


def test_special_token_among_the_pieces(tmp_path):
    """No text becomes padding or the end of a sentence, even where a model was told to find such a symbol."""
    train(tmp_path, user_defined_symbols=["<pad>"])
    write_lines(tmp_path / "dict.txt", ["▁the 9", "▁ 5"])
    assert symbols_of(load_encoder("sentencepiece", tmp_path), "the <pad>") == ["▁the", "▁", "<unk>"]


# The dictionary


def test_derived_dictionary_is_what_convert_hf_writes(xlmr, encoder, tmp_path):
    vocabulary = hugging_face.read_vocabulary(xlmr)
    symbols = hugging_face.dictionary_symbols(vocabulary, hugging_face.fairseq_order(vocabulary))
    write_dictionary(symbols, tmp_path / "dict.txt")
    assert encoder.dictionary_bytes() == (tmp_path / "dict.txt").read_bytes()
    assert not encoder.dictionary.exists() and encoder.files == [xlmr / MODEL]


def test_dictionary_that_is_there(xlmr, encoder, tmp_path):
    (tmp_path / "spm.model").write_bytes((xlmr / MODEL).read_bytes())
    lines = encoder.dictionary_bytes().split(b"\n")[:-1]
    (tmp_path / "dict.txt").write_bytes(b"\n".join(lines[::-1]))
    other = load_encoder("sentencepiece", tmp_path)
    assert other.files == [tmp_path / "spm.model", tmp_path / "dict.txt"]
    assert other.dictionary_bytes() == (tmp_path / "dict.txt").read_bytes()
    last = len(lines) + 3
    expected = [[last + 4 - number if number > 3 else number for number in row] for row in ids_of(encoder, TRICKY)]
    assert ids_of(other, TRICKY) == expected


# Bad input


def test_missing_model(tmp_path):
    assert "has no *.model file" in complaint("sentencepiece", tmp_path)
    assert "has no *.model file" in complaint("sentencepiece", tmp_path / "nothing")


def test_several_models(xlmr, tmp_path):
    for name in ("b.model", "a.model"):
        (tmp_path / name).write_bytes((xlmr / MODEL).read_bytes())
    assert "has several *.model files, a.model, b.model: leave one there" in complaint("sentencepiece", tmp_path)


def test_damaged_model(xlmr, tmp_path):
    content = (xlmr / MODEL).read_bytes()
    for damaged in (b"", content[:500], content[:-3], b"version https://git-lfs.github.com/spec/v1\n", bytes(99)):
        (tmp_path / "spm.model").write_bytes(damaged)
        message = complaint("sentencepiece", tmp_path)
        assert "spm.model is not a SentencePiece model" in message and message.endswith("fetch it again")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}, "begins with <pad> </s> <unk>, not <unk> <s> </s>"),
        ({"bos_id": -1, "eos_id": -1}, "begins with <unk>"),
        ({"user_defined_symbols": ["<mask>"]}, "'<mask>' would stand twice"),
        ({"unk_piece": "[UNK]"}, "begins with [UNK] <s> </s>"),
        ({"pad_id": 3}, "'<pad>' would stand twice"),
    ],
)
def test_model_that_is_not_laid_out_as_xlmr(options, reason, tmp_path):
    message = complaint("sentencepiece", train(tmp_path, **options))
    assert reason in message and message.endswith("put the model's dict.txt beside it")
    write_lines(tmp_path / "dict.txt", ["▁the 9", "▁ 5", "<mask> 1"])  # then it is as good as any
    assert symbols_of(load_encoder("sentencepiece", tmp_path), "the 𝄞") == ["▁the", "▁", "<unk>"]


def test_dictionary_of_another_model(xlmr, tmp_path):
    (tmp_path / "spm.model").write_bytes((xlmr / MODEL).read_bytes())
    write_lines(tmp_path / "dict.txt", ["▁the 1"])
    message = complaint("sentencepiece", tmp_path, "the then")
    assert f"{tmp_path / 'dict.txt'} lacks the piece" in message and "of 'the then'" in message and "--vocab" in message


def test_the_library_is_not_hidden_by_the_module_of_the_same_name(encoder):
    assert Path(sentencepiece.__file__).parent.name == "sentencepiece"
    assert type(encoder.model) is sentencepiece.SentencePieceProcessor
