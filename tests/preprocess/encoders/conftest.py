"""Small vocabularies: BERT's, uncased and cased, and a SentencePiece model with XLM-R's settings."""

import string
from pathlib import Path

import pytest

from tests.preprocess.commands import write_vocab

MODEL = "sentencepiece.bpe.model"
LETTERS = string.ascii_lowercase + string.digits  # without accents, as all pieces of BERT's own uncased vocabulary
UNCASED = [
    *"[PAD] [unused0] [unused1] [UNK] [CLS] [SEP] ! the cat un sep mask 中 字".split(),
    "ℝ",  # upper-case without a lower case; BERT's own uncased vocabulary has it
    *(sign for sign in string.punctuation if sign != "!"),
    *LETTERS,
    *("##" + letter for letter in LETTERS),
    "[MASK]",
    "##ing",
]
CASED = [*UNCASED, *"The Cat SEP MASK é ##é É ##É E A".split()]
MERGES = ["Ġ t", "h e", "Ġt he", "e r", "Ġ a", "i n", "Ġ Ġ", "ĠĠ ĠĠ", "Ã ©", "ð Ł", "ðŁ ĺ", "a f", "C af", "Ġ C"]
SENTENCES = [
    "the cat sat on the mat, and the dog ran after the red cat.",
    "a thin thing in the inn was there then; and there again!",
    "no thought can stand in the rain without an answer?",
    "ein schöner Café à Paris, \"quoted\" and 'single'",
    "中文 字 日本 ½ 1 2 3 😀",
]


@pytest.fixture(scope="session")
def bert(tmp_path_factory) -> Path:
    """A folder with only vocab.txt."""
    folder = tmp_path_factory.mktemp("bert")
    write_lines(folder / "vocab.txt", UNCASED)
    return folder


@pytest.fixture(scope="session")
def gpt2_files(tmp_path_factory) -> Path:
    """A folder of GPT-2's encoder whose dict.txt has another order."""
    folder = write_vocab(tmp_path_factory.mktemp("gpt2"), [tuple(merge.split()) for merge in MERGES])
    lines = (folder / "dict.txt").read_text().splitlines()
    write_lines(folder / "dict.txt", sorted(lines, key=lambda line: int(line.split()[0]) * 7919 % len(lines)))
    return folder


@pytest.fixture(scope="session")
def xlmr(tmp_path_factory) -> Path:
    return train(tmp_path_factory.mktemp("xlmr"))


def train(folder: Path, **options: object) -> Path:
    import sentencepiece

    usual = {"vocab_size": 90, "hard_vocab_limit": False, "character_coverage": 1.0, "minloglevel": 2, **options}
    prefix = str(folder / MODEL.removesuffix(".model"))
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(SENTENCES), model_prefix=prefix, **usual)
    return folder


def numbered(tokens: list[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(tokens)}


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
