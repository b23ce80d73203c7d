"""Vocabulary files -> dict.txt: exact symbols, exact order."""

from __future__ import annotations

import json
from pathlib import Path

import hf_folders
import pytest
from fairseq.data import Dictionary
from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode

from checkpoints.convert_hf import write_dictionary
from preprocess.encoders import hugging_face

pytest.importorskip("sentencepiece")
pytest.importorskip("tokenizers")

GPT2_BPE = Path(__file__).resolve().parents[3] / "shared" / "data" / "gpt2_bpe"


def symbols_of(folder: Path):
    """Convert, let fairseq write and read dict.txt, and return (fairseq's symbols, order)."""
    vocabulary = hugging_face.read_vocabulary(folder)
    order = hugging_face.fairseq_order(vocabulary)
    symbols = hugging_face.dictionary_symbols(vocabulary, order)
    write_dictionary(symbols, folder / "dict.txt")
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    assert dictionary.symbols[4:] == symbols
    assert len(order) == len(dictionary) + 1  # the task appends <mask>
    assert sorted(order) == list(range(len(order)))
    return dictionary.symbols, order


@pytest.fixture(params=["plain", "tokenizer.json"])
def write(request):
    return {
        "plain": hf_folders.write_vocabulary,
        "tokenizer.json": hf_folders.write_tokenizer_json,
    }[request.param]


def test_bert(write, tmp_path):
    write(tmp_path, "bert")
    symbols, order = symbols_of(tmp_path)
    special = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
    words = [token for token in hf_folders.WORDPIECE if token not in special]
    assert symbols == ["<s>", "<pad>", "</s>", "<unk>", *words]
    tokens = [hf_folders.WORDPIECE[i] for i in order]
    assert tokens == [*special[:4], *words, "[MASK]"]


def test_roberta(write, tmp_path):
    write(tmp_path, "roberta")
    symbols, order = symbols_of(tmp_path)
    tokens = hf_folders.bpe_tokens()
    assert order == list(range(len(tokens)))
    encoder = [*bytes_to_unicode().values(), *(m.replace(" ", "") for m in hf_folders.MERGES)]
    encoder.append("<|endoftext|>")  # 256 + number of merges
    assert symbols[4:-1] == [str(encoder.index(token)) for token in tokens[4:-2]]
    assert symbols[-1] == "madeupword0000"


def test_xlmr(write, tmp_path):
    write(tmp_path, "xlm-roberta")
    symbols, order = symbols_of(tmp_path)
    tokens = [piece for piece, _ in hf_folders.spm_pieces()]
    assert order == list(range(len(tokens)))
    assert symbols == tokens[:-1]
    import sentencepiece

    spm = sentencepiece.SentencePieceProcessor(model_proto=hf_folders.spm_bytes())
    assert [symbols.index(spm.id_to_piece(i)) for i in (3, 9)] == [4, 10]


def test_added_tokens_of_plain_files(tmp_path):
    hf_folders.write_vocabulary(tmp_path, "bert")
    count = len(hf_folders.WORDPIECE)
    hf_folders.write_json(tmp_path / "added_tokens.json", {"<e1>": count, "<e2>": count + 1})
    assert symbols_of(tmp_path)[0][-2:] == ["<e1>", "<e2>"]


def test_merges_as_pairs(tmp_path):
    """Newer files spell a merge as a pair, older ones as text."""
    hf_folders.write_tokenizer_json(tmp_path, "roberta")
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    expected = symbols_of(tmp_path)
    for merges in (hf_folders.MERGES, [pair.split() for pair in hf_folders.MERGES]):
        content["model"]["merges"] = merges
        hf_folders.write_json(path, content)
        assert symbols_of(tmp_path) == expected


@pytest.mark.skipif(not GPT2_BPE.is_dir(), reason="the released GPT-2 BPE files are not here")
def test_released_roberta_dictionary(tmp_path):
    """RoBERTa's vocabulary in Hugging Face's form converts back to the released dict.txt."""
    encoder = json.loads((GPT2_BPE / "encoder.json").read_text(encoding="utf-8"))
    token_of = {str(i): token for token, i in encoder.items()}
    released = Dictionary.load(str(GPT2_BPE / "dict.txt")).symbols
    tokens = [token_of.get(symbol, symbol) for symbol in released] + ["<mask>"]
    assert len(tokens) == 50265
    hf_folders.write_json(tmp_path / "vocab.json", {token: i for i, token in enumerate(tokens)})
    (tmp_path / "merges.txt").write_bytes((GPT2_BPE / "vocab.bpe").read_bytes())
    symbols, order = symbols_of(tmp_path)
    assert symbols == released
    assert order == list(range(50265))
