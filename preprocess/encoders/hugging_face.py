"""Hugging Face vocabularies as fairseq dictionaries.

fairseq fixes the ids <s>=0 <pad>=1 </s>=2 <unk>=3, reads the symbols from id 4 on from dict.txt, and its tasks append
<mask> last. So a vocabulary is reordered: five special tokens to their places, all others behind one another. For
RoBERTa and XLM-R that changes nothing.

A symbol is a piece as fairseq's tokenizer writes it: of WordPiece or SentencePiece the piece, of byte-level BPE its id
in GPT-2's encoder.json as decimal text.

A ValueError says what is wrong with a file; the caller adds the remedy.
"""

import json
from collections.abc import Container, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import pre_tokenizers

from ..errors import InputError

Merges = list[tuple[str, str]]
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())  # GPT-2's names of bytes, in the order of its ids

# In fairseq's order: beginning, padding, end, unknown, mask.
BERT_SPECIAL = ("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]")
FAIRSEQ_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
SPECIAL_TOKENS = (BERT_SPECIAL, FAIRSEQ_SPECIAL)
UNUSED = ("<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED")  # CamemBERT's

CONFIG = "tokenizer_config.json"
# tokenizer_config.json's names of tokens that text never becomes, and of tokens that a text may hold
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
ADDITIONAL = ("additional_special_tokens", "extra_special_tokens")
# its settings of how words are found: with these values, plain files and tokenizer.json follow them
WORDS = {"word_tokenizer_type": "basic", "subword_tokenizer_type": "wordpiece", "do_basic_tokenize": True}


class Vocabulary(NamedTuple):
    """Tokens by Hugging Face id; `merges` if they come from a byte-level BPE."""

    path: Path
    tokens: list[str]
    merges: Merges | None = None


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not valid JSON ({error})") from error


def _vocabulary(path: Path, ids: dict[str, int], merges: Merges | None = None) -> Vocabulary:
    tokens = sorted(ids, key=ids.__getitem__)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise ValueError(f"{path}: the token ids are not 0 to {len(tokens) - 1}, each once")
    return Vocabulary(path, tokens, merges)


def _merge(line: Any) -> tuple[str, str]:
    first, second = line.split(" ") if isinstance(line, str) else line
    return first, second


def read_merges(path: Path) -> Merges:
    """Read vocab.bpe or merges.txt: two pieces a line."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [_merge(line.rstrip()) for line in lines if line and not line.startswith("#version")]


def _added(folder: Path) -> dict[str, int]:
    path = folder / "added_tokens.json"
    return read_json(path) if path.is_file() else {}


def sentencepiece_vocabulary(path: Path, pieces: list[str]) -> Vocabulary:
    """Return XLM-R's vocabulary of a model: <unk>, <s>, </s> come first there, and every other id is one less."""
    if pieces[:3] != ["<unk>", "<s>", "</s>"]:
        raise ValueError(f"{path} begins with {' '.join(pieces[:3])}, not <unk> <s> </s> as XLM-R's")
    return Vocabulary(path, [*FAIRSEQ_SPECIAL[:4], *pieces[3:], FAIRSEQ_SPECIAL[4]])


# In order of preference: tokenizer.json alone also holds tokens that were added later.
FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model")


def read_vocabulary(place: Path) -> Vocabulary:
    """Read a file that FILES names, or the first of these in a folder. A damaged file raises its parser's error."""
    path = place if place.is_file() else next((place / name for name in FILES if (place / name).is_file()), None)
    if path is None:
        raise ValueError(f"{place}: no vocabulary; put one of {', '.join(FILES)} there")
    if path.name == "tokenizer.json":  # of a Unigram model a list, of WordPiece and BPE a mapping
        content = read_json(path)
        model, pieces = content["model"], content["model"]["vocab"]
        ids = {piece: i for i, (piece, _) in enumerate(pieces)} if isinstance(pieces, list) else dict(pieces)
        ids.update({token["content"]: token["id"] for token in content.get("added_tokens", ())})
        return _vocabulary(path, ids, [_merge(line) for line in model["merges"]] if "merges" in model else None)
    if path.name == "vocab.txt":  # WordPiece
        # Not splitlines(): that also splits at U+2028, which is itself a token of some vocabularies.
        with path.open(encoding="utf-8") as lines:
            ids = {line.rstrip("\n"): i for i, line in enumerate(lines)}
        return _vocabulary(path, {**ids, **_added(path.parent)})
    if path.name == "vocab.json":  # byte-level BPE
        merges = read_merges(path.with_name("merges.txt"))
        return _vocabulary(path, {**read_json(path), **_added(path.parent)}, merges)
    from sentencepiece import SentencePieceProcessor

    model = SentencePieceProcessor(model_file=str(path))
    return sentencepiece_vocabulary(path, model.id_to_piece(list(range(model.get_piece_size()))))


def read_config(folder: Path, name: str = CONFIG) -> dict[str, Any]:
    """Return the settings in a file of JSON; {} where there is no such file."""
    path = folder / name
    try:
        config = read_json(path) if path.is_file() else {}
        return {key: value for key, value in config.items() if value is not None}  # null: the default
    except (ValueError, AttributeError) as error:
        raise InputError(f"{path} is not a tokenizer's settings: {error}; fetch it again") from None


def content_of(token: Any) -> Any:
    """Return the text of a token, which files have alone or with its settings."""
    return token["content"] if isinstance(token, dict) else token


def special_names(config: dict[str, Any]) -> set[str]:
    """Return the tokens that no text becomes: the special ones of both kinds, and those in a role of the settings."""
    return {*chain(*SPECIAL_TOKENS), *(content_of(config[role]) for role in ROLES if role in config)}


def read_settings(folder: Path, classes: Sequence[str], **followed: Any) -> dict[str, Any]:
    """Return the settings of tokenizer_config.json beside plain files.

    Raise InputError for what plain files cannot follow: a tokenizer that is not one of ``classes``, another value than
    ``followed``, an added token.
    """
    config = {**read_config(folder, "special_tokens_map.json"), **read_config(folder)}
    known = [f"{name}Tokenizer{fast}" for name in classes for fast in ("", "Fast")]
    named = config.get("tokenizer_class") or read_config(folder, "config.json").get("tokenizer_class", known[0])
    odd = [f"tokenizer_class = {named!r}"] if named not in known else []
    odd += [f"{name} = {config[name]!r}" for name, value in followed.items() if config.get(name, value) != value]
    added = [*config.get("added_tokens_decoder", {}).values(), *_added(folder)]
    for tokens in map(config.get, ADDITIONAL):
        added += tokens.values() if isinstance(tokens, dict) else tokens or []
    special = {*special_names(config), *UNUSED}
    odd += [f"the added token {token!r}" for token in map(content_of, added) if token not in special]
    if odd:
        raise InputError(
            f"{folder} has {odd[0]}, which its plain files do not follow: put its tokenizer.json beside them "
            "(save_pretrained of transformers' AutoTokenizer writes one), or choose another --bpe"
        )
    return config


def gpt2_ids(merges: Merges) -> dict[str, str]:
    """Map byte-level tokens to GPT-2 ids as text: bytes, merges in order, then the end mark."""
    tokens = BYTES + [left + right for left, right in merges] + ["<|endoftext|>"]
    return {token: str(i) for i, token in enumerate(tokens)}


def piece_numbers(pieces: dict[str, int], merges: Merges, symbols: Container[str]) -> dict[str, int]:
    """Return the number that dict.txt has for each piece of a byte-level BPE.

    fairseq takes the numbers of encoder.json. convert_hf.py takes the order of bytes and merges, since a vocab.json
    may begin with special tokens or follow frequency. Where the two differ, the ``symbols`` of dict.txt decide; raise
    ValueError where they fit both or neither.
    """
    ordered = {piece: int(number) for piece, number in gpt2_ids(merges).items() if piece in pieces}
    named = {piece: pieces[piece] for piece in ordered}
    if named == ordered:
        return ordered
    fitting = [numbers for numbers in (named, ordered) if all(str(i) in symbols for i in numbers.values())]
    if len(fitting) != 1:
        fits = "both numberings" if fitting else "neither numbering"
        raise ValueError(f"pieces are not numbered as bytes and merges in their order, and dict.txt fits {fits}")
    return fitting[0]


def special_ids(vocabulary: Vocabulary) -> list[int]:
    """Return the ids of the five special tokens in fairseq's order; [] where they are not all there."""
    ids = {token: i for i, token in enumerate(vocabulary.tokens)}
    # MPNet has fairseq's four in front of all of BERT's vocabulary
    first = tuple(vocabulary.tokens[:4]) == FAIRSEQ_SPECIAL[:4]
    orders = SPECIAL_TOKENS[::-1] if first else SPECIAL_TOKENS
    whole = [names for names in orders if ids.keys() >= set(names)]
    return [ids[name] for name in whole[0]] if whole else []


def fairseq_order(vocabulary: Vocabulary) -> list[int]:
    """Return, for every fairseq id (with <mask> last), the Hugging Face id that it takes."""
    special = special_ids(vocabulary)
    if not special:
        wanted = " or ".join(" ".join(names) for names in SPECIAL_TOKENS)
        raise ValueError(f"{vocabulary.path}: the special tokens are not all there: {wanted}")
    others = [i for i in range(len(vocabulary.tokens)) if i not in special]
    return special[:4] + others + special[4:]


def dictionary_symbols(vocabulary: Vocabulary, order: list[int]) -> list[str]:
    """Return the symbols of dict.txt: those of fairseq's ids 4 to len - 2."""
    path, tokens, merges = vocabulary
    if merges is not None:
        if not set("".join(left + right for left, right in merges)) <= set(BYTES):
            remedy = "convert a model with GPT-2's BPE, WordPiece or SentencePiece (Unigram)"
            raise ValueError(f"{path}: the BPE is not byte-level; fairseq has no tokenizer for it, {remedy}")
        ids = gpt2_ids(merges)
        for token in tokens:
            if token not in ids and token.isdecimal():
                raise ValueError(f"{path}: added token {token!r} reads as a GPT-2 id; rename it")
        tokens = [ids.get(token, token) for token in tokens]  # madeupword0000 and the like stay as they are
    symbols = [tokens[i] for i in order[4:-1]]
    seen, separating = set(FAIRSEQ_SPECIAL), frozenset(" \n\r\0")
    for symbol in symbols:
        if not symbol or not separating.isdisjoint(symbol):
            raise ValueError(f"{path}: {symbol!r} has a space or a NUL; dict.txt cannot hold it")
        if symbol in seen:
            raise ValueError(f"{path}: {symbol!r} would stand twice in fairseq's dictionary")
        seen.add(symbol)
    return symbols
