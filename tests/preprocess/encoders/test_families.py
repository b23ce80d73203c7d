"""Ids equal to transformers', for the tokenizers of several families of models, from each form of their files."""

import json
import random
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
import transformers
from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from preprocess.encoders import hugging_face, load_encoder

from .conftest import CASED, MODEL, SENTENCES, UNCASED, numbered, write_lines
from .texts import TRICKY, XLMR_SPECIAL, complaint, ids_of, symbols_of

SIGNS = """the cat and ring é É ñ ö ß ʼn ½ ™ e\u0301 が か\u3099 한국 中文 日本語 العربية हिन्दी
😀 👩\u200d👧 🇩🇪 ' " - ## ▁ 's 12,5""".split()
SPACES = [" ", "", "  ", "\t", "\u00a0", "\u3000", "\u2009", "\u200b"]


def sentences(count: int) -> list[str]:
    """Drawn from words and signs on which tokenizers differ, with ordinary and odd spaces between them."""
    draw, words = random.Random(1), [*SIGNS, *" ".join(SENTENCES).split()]
    lines = [
        "".join(draw.choice(words) + draw.choice(SPACES) for _ in range(draw.randint(1, 12))) for _ in range(count)
    ]
    letters = [range(1, 0x250), range(0x250, 0x3100), range(1, 0xD800), range(0xE000, 0x110000)]
    lines += ["".join(chr(draw.choice(draw.choice(letters))) for _ in range(10)) for _ in range(count // 4)]
    return [line.strip() for line in [*TRICKY, *lines]]


LINES = sentences(1600)


def byte_level(special: list[str], lower: bool = False) -> Tokenizer:
    """A byte-level BPE as ByteLevelBPETokenizer trains it, special tokens first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Lowercase() if lower else None
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=lower)
    options = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "show_progress": False}
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, **options)
    tokenizer.train_from_iterator(SENTENCES * 20, trainer)
    return tokenizer


def roberta(order: Callable[[list[str]], list[str]]) -> Callable[[Path], object]:
    """RoBERTa's tokenizer, whose pieces ``order`` puts in the order of their numbers."""
    trained = json.loads(byte_level([]).to_str())["model"]
    vocab = numbered(order(sorted(trained["vocab"], key=trained["vocab"].get)))
    return lambda folder: transformers.RobertaTokenizer(
        vocab=vocab, merges=[tuple(merge) for merge in trained["merges"]]
    )


def bert(tokens: list[str], lower: bool) -> Callable[[Path], object]:
    return lambda folder: transformers.BertTokenizer(vocab=numbered(tokens), do_lower_case=lower)


def mpnet(folder: Path) -> object:
    """fairseq's special tokens in front of BERT's vocabulary, <mask> behind it."""
    return transformers.MPNetTokenizer(vocab=numbered([*XLMR_SPECIAL[:4], *UNCASED, "<mask>"]))


def xlmr_tokenizer(folder: Path) -> object:
    """With a normalizer that its tokenizer.json has to say; the model's own is much the same."""
    spm = SentencePieceProcessor(model_file=str(folder / MODEL))
    pieces = [(spm.id_to_piece(i), spm.get_score(i)) for i in range(3, spm.get_piece_size())]
    vocab = [*((special, 0.0) for special in XLMR_SPECIAL[:4]), *pieces, ("<mask>", 0.0)]
    tokenizer = transformers.XLMRobertaTokenizer(vocab=vocab)
    tokenizer.backend_tokenizer.normalizer = normalizers.NFKC()
    return tokenizer


# by frequency, as it were, special tokens around them: the numbers of roberta-base and distilroberta-base
SHUFFLED = roberta(lambda pieces: [*XLMR_SPECIAL[:4], *random.Random(1).sample(pieces, len(pieces)), "<mask>"])
FAMILIES = {
    "bert-uncased": ("bert", bert(UNCASED, lower=True)),
    "bert-cased": ("bert", bert([*CASED, "か", "が", "##が"], lower=False)),
    "mpnet": ("bert", mpnet),
    "roberta-own-bpe": ("gpt2", roberta(lambda pieces: [*XLMR_SPECIAL, *pieces])),
    "distilroberta": ("gpt2", SHUFFLED),
    "xlmr": ("sentencepiece", xlmr_tokenizer),
}


def write_bpe(folder: Path, tokenizer: Tokenizer, names: tuple[str, str]) -> list[str]:
    model = json.loads(tokenizer.to_str())["model"]
    (folder / names[0]).write_text(json.dumps(model["vocab"]))
    write_lines(folder / names[1], ["#version: 0.2", *(" ".join(merge) for merge in model["merges"])])
    return sorted(model["vocab"], key=model["vocab"].get)


@pytest.mark.parametrize("plain", [False, True], ids=["tokenizer.json", "plain"])
@pytest.mark.parametrize("family", FAMILIES)
def test_ids_of_transformers(family, plain, xlmr, tmp_path):
    """The embeddings that convert_hf.py puts at our ids are those at transformers' ids."""
    bpe, build = FAMILIES[family]
    tokenizer = build(xlmr)
    tokenizer.save_pretrained(tmp_path)
    vocabulary = hugging_face.read_vocabulary(tmp_path)
    order = hugging_face.fairseq_order(vocabulary)
    write_lines(tmp_path / "dict.txt", [f"{symbol} 1" for symbol in hugging_face.dictionary_symbols(vocabulary, order)])
    if plain:  # the files from which transformers' tokenizers were read before tokenizer.json
        (tmp_path / "tokenizer.json").unlink()
        if bpe == "sentencepiece":
            (tmp_path / MODEL).write_bytes((xlmr / MODEL).read_bytes())
        elif bpe == "bert":
            write_lines(tmp_path / "vocab.txt", vocabulary.tokens)
        else:
            write_bpe(tmp_path, tokenizer.backend_tokenizer, ("vocab.json", "merges.txt"))
    encoder, number = load_encoder(bpe, tmp_path), {theirs: ours for ours, theirs in enumerate(order)}
    lines = LINES
    if plain and bpe == "sentencepiece":  # what both normalizers leave as it is
        normal = {line: encoder.model.normalize(line).replace("▁", " ").strip() for line in LINES}
        lines = [line for line, found in normal.items() if found == line == unicodedata.normalize("NFKC", line)]
        assert len(lines) > 100
    theirs = [tokenizer.encode(line, add_special_tokens=False, split_special_tokens=True) for line in lines]
    assert ids_of(encoder, lines) == [[number[i] for i in row] for row in theirs]


def test_lower_case_and_a_space_in_front_of_a_byte_level_bpe(tmp_path):
    """As the file says; beside it stand the files of GPT-2's encoder, which cannot say it."""
    tokenizer = byte_level([], lower=True)
    pieces = write_bpe(tmp_path, tokenizer, ("encoder.json", "vocab.bpe"))
    write_lines(tmp_path / "dict.txt", [f"{i} 1" for i in range(len(pieces))])
    by_plain_files = ids_of(load_encoder("gpt2", tmp_path), LINES)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    encoder = load_encoder("gpt2", tmp_path)
    assert ids_of(encoder, LINES) == [[i + 4 for i in tokenizer.encode(line).ids] for line in LINES] != by_plain_files
    (row,) = ids_of(encoder, ["The CAT"])
    assert encoder.behind_space(row) == row


BERT_SPECIAL = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]")


@pytest.mark.parametrize(("special", "moved"), [(XLMR_SPECIAL, 0), (BERT_SPECIAL, len(BERT_SPECIAL))])
def test_dictionary_beside_a_vocab_json(special, moved, tmp_path):
    """With fairseq's numbers, of vocab.json, or those of convert_hf.py, without the special tokens in front."""
    pieces = write_bpe(tmp_path, byte_level(list(special)), ("vocab.json", "merges.txt"))
    write_lines(tmp_path / "dict.txt", [f"{i - moved} 1" for i in range(len(special), len(pieces))])
    assert symbols_of(load_encoder("gpt2", tmp_path), "a") == [str(pieces.index("a") - moved)]
    write_lines(tmp_path / "dict.txt", [f"{i} 1" for i in range(len(pieces))])
    assert "dict.txt fits both" in complaint("gpt2", tmp_path)


def test_a_bpe_over_characters_is_sentencepieces(tmp_path):
    """Its dict.txt names the pieces."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=list(XLMR_SPECIAL), show_progress=False)
    tokenizer.train_from_iterator(SENTENCES * 20, trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    pieces = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    write_lines(tmp_path / "dict.txt", [f"{piece} 1" for piece in pieces[len(XLMR_SPECIAL) :]])
    number = {number: max(number - 1, 3) for number in range(len(pieces))}  # <mask> is not of dict.txt
    tokenizer.encode_special_tokens = True
    expected = [[number[i] for i in tokenizer.encode(line).ids] for line in LINES]
    encoder = load_encoder("sentencepiece", tmp_path)
    assert ids_of(encoder, LINES) == expected
    assert encoder.decode([[3]]) == ["<unk>"]  # not <mask>, of which the word vectors would be read


def test_memory_and_time_of_a_strangers_tokenizer(tmp_path):
    """Replacements in a file of 3 KB make a megabyte of each letter; a word of 10,000 signs takes 20 seconds."""
    tokenizer = bert(CASED, lower=False)(tmp_path).backend_tokenizer
    for count, word, named in ((2, 100, ""), (20, 100, "tokenizer.json"), (2, 10_000, "max_input_chars_per_word")):
        tokenizer.normalizer = normalizers.Sequence([normalizers.Replace("a", "aa")] * count)
        tokenizer.model.max_input_chars_per_word = word
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        assert named in complaint("bert", tmp_path) if named else load_encoder("bert", tmp_path)


def test_what_a_lone_vocabulary_does_not_say(commands):
    """Accents and voiced marks are kept where their pieces are there; the command tells what was assumed."""
    vocab = commands.vocab / "vocab.txt"
    write_lines(vocab, [*UNCASED, "é", "が"])
    (commands.vocab / "dict.txt").unlink()
    assert symbols_of(load_encoder("bert", commands.vocab), "É が") == ["é", "が"]
    commands.own("x.csv", "text,label\nthe cat,1\n", "--text-columns", "text", "--bpe", "bert")
    assert "lower case, accents kept" in commands.capsys.readouterr().out
