"""Which words do learnt prompts resemble? Nearest word embeddings of each prompt row, by cosine.

The rows of the input (layer 0) stand among word embeddings. A generator's rows (IDPG) differ from input to input: its
output bias is what all inputs share, and with --data the rows that it generates for some examples are shown too.
"""

import argparse
from functools import partial
from typing import Any

import torch
from torch import Tensor

from preprocess.data_folder import DataFolder

from ..errors import InputError
from ..inference.load import LoadedModel, load_trained
from ..inference.prompts import NearestWords, SeenRows, Vocabulary
from ..inference.text import load_dictionary
from ..methods.prompts.base import PREFIX, PromptMethod
from ..methods.registry import find_preset
from ..training.arguments import parse_overrides

REMEDY = "give a checkpoint with prompts in the input, such as of m-idpg-phm or prompt-tuning"


def check_method(cfg: Any, with_data: bool) -> None:
    """Raise InputError if inputs share no rows; with ``with_data`` also if no rows are made from the input."""
    method = getattr(cfg, "method", None)
    kinds = find_preset(method).methods if method else ()
    kind = next((kind for kind in kinds if issubclass(kind, PromptMethod)), None)
    if kind is None or kind.shared is None or str(cfg.prompt_insertion) in PREFIX:
        insertion = "" if kind is None else f" --prompt-insertion {cfg.prompt_insertion}"
        raise InputError(f"--method {method or cfg._name}{insertion} has no rows that all inputs share: {REMEDY}")
    if with_data and kind.shows_no_example is not None:
        raise InputError(f"--data: --method {method} {kind.shows_no_example}: leave --data out")


@torch.no_grad()
def generated_sections(
    loaded: LoadedModel, vocabulary: Vocabulary, args: argparse.Namespace
) -> list[tuple[str, Tensor]]:
    """Return texts and t x d generated rows of the first examples of the split."""
    folder = DataFolder(args.data)
    sentences = [folder.rows(part, args.split) for part in folder.inputs]
    if not 1 <= args.examples <= len(sentences[0]):
        raise InputError(
            f"--examples {args.examples}: split {args.split} of {args.data} has {len(sentences[0])}, give 1 to that"
        )
    dataset = loaded.task.load_dataset(args.split, need_labels=False)
    first, seen = range(args.examples), SeenRows()
    loaded.model(**dataset.collater([dataset[i] for i in first])["net_input"], features_only=True, inspect=seen)
    rows = next(rows for layer, rows in seen if layer == args.layer)
    texts = [" | ".join(vocabulary.text(part[i][:-1].tolist()).strip() for part in sentences) for i in first]
    return list(zip(texts, rows))


def run(args: argparse.Namespace) -> None:
    if args.dict is None and args.data is None:
        raise InputError("--dict is missing: name the backbone's dict.txt or a folder that was made with it")
    source = args.dict or args.data
    vocabulary = Vocabulary.read(source, args.bpe, args.vocab)
    folder = args.data or (source if source.is_dir() else None)
    if args.data and load_dictionary(f"{args.data}/input0/dict.txt").symbols != vocabulary.dictionary.symbols:
        raise InputError(
            f"--data {args.data} was made with another dictionary than {vocabulary.path}: leave --dict out"
        )
    overrides = {**parse_overrides(args.model_overrides), **({"data": str(folder)} if folder else {})}
    check = partial(check_method, with_data=args.data is not None)
    dictionary = None if args.data else vocabulary.dictionary
    loaded = load_trained(args.checkpoint, "CHECKPOINT", dictionary, overrides, check)
    method: Any = next(part for part in loaded.model.method.modules() if isinstance(part, PromptMethod))
    if args.layer not in method.places:
        places = ", ".join(map(str, method.places))
        raise InputError(f"--layer {args.layer}: the prompts of {loaded.path} enter at {places}, give one of these")

    # The rows that all inputs share, t x d: a task's prompt, or a generator's output bias; then those of some inputs.
    rows = method.initial_rows.detach()
    sections = [(str(method.shared), rows[method.places.index(args.layer) % len(rows)])]
    if args.data:
        sections += generated_sections(loaded, vocabulary, args)
    words = NearestWords(vocabulary, loaded.model.encoder.sentence_encoder.embed_tokens.weight.detach())
    lines = [f"{args.checkpoint}: {loaded.name}, layer {args.layer}; nearest words and their cosines"]
    for title, rows in sections:
        lines += [title, *words.lines(rows, args.top)]
    loaded.check_backbone()
    print("\n".join(lines))
