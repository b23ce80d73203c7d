"""Convert a Hugging Face RoBERTa, XLM-R or BERT folder into a fairseq RoBERTa checkpoint.

    python checkpoints/convert_hf.py SRC DST [--verify] [--force]

SRC holds config.json, model.safetensors or pytorch_model.bin, and the vocabulary. DST receives
model.pt (loads as `--arch roberta`) and dict.txt. Nothing is downloaded, no pickled code runs.

fairseq's RoBERTa has no segment (token type) embeddings: row 0 of the source's is added to the
positions. For BERT, sentence B of a pair therefore reads as segment 0, unlike in its pre-training.
"""

from __future__ import annotations

import argparse
import copy
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a script, from anywhere, installed or not
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import Tensor

from checkpoints.hf_weights import FAMILIES, State, convert_weights, read_weights
from preprocess.encoders.hugging_face import (
    Vocabulary,
    dictionary_symbols,
    fairseq_order,
    read_json,
    read_vocabulary,
)
from preprocess.errors import InputError, command_line
from preprocess.flags import named_path
from preprocess.writing import scratch_folder, sweep

if TYPE_CHECKING:
    from fairseq.models.roberta import RobertaModel

FILES = ("dict.txt", "model.pt")  # in the order of moving: a model never lacks its dictionary
TOLERANCE = 1e-5
SEED = 1  # of the batch that is compared

# fairseq's name -> Hugging Face's.
SIZES = {
    "encoder_layers": "num_hidden_layers",
    "encoder_embed_dim": "hidden_size",
    "encoder_ffn_embed_dim": "intermediate_size",
    "encoder_attention_heads": "num_attention_heads",
}
REQUIRED = (*SIZES.values(), "vocab_size", "max_position_embeddings")
FRACTIONS = ("layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob")
# Hugging Face's name -> the only values that fairseq's RoBERTa can compute.
CHOICES = {
    "model_type": tuple(FAMILIES),
    "hidden_act": ("gelu", "relu"),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
}


def read_config(folder: Path) -> dict[str, Any]:
    """Return what config.json says.

    Raises:
        ValueError: it lacks a size, or says what fairseq's RoBERTa cannot compute.
    """
    path = folder / "config.json"
    config = {name: value for name, value in read_json(path).items() if value is not None}  # null: the default
    # what is missing is refused as null is
    for name, value in {**dict.fromkeys(("model_type", *REQUIRED)), **config}.items():
        if name in REQUIRED:
            fits, allowed = type(value) is int and value > 0, "a whole number above 0"
        elif name in FRACTIONS:
            fits, allowed = type(value) in (int, float) and 0 <= value < 1, "a number from 0 to below 1"
        elif name in CHOICES:
            fits, allowed = value in CHOICES[name], " or ".join(map(str, CHOICES[name]))
        else:
            continue
        if not fits:
            raise ValueError(f"{path}: {name} = {value!r} is not {allowed}")
    width, heads = config["hidden_size"], config["num_attention_heads"]
    if width % heads:
        raise ValueError(f"{path}: num_attention_heads = {heads} does not divide hidden_size = {width}")
    return config


def check_vocabulary(vocabulary: Vocabulary, config: dict[str, Any], order: list[int]) -> None:
    """Raise ValueError for a vocabulary that does not belong to the weights."""
    if len(vocabulary.tokens) != config["vocab_size"]:
        raise ValueError(
            f"{vocabulary.path}: {len(vocabulary.tokens)} tokens, but config.json has vocab_size = "
            f"{config['vocab_size']}; resize the model's embeddings to the vocabulary and save it"
        )
    padding = config.get("pad_token_id", 1)
    if FAMILIES[config["model_type"]].positions_follow_padding and padding != order[1]:
        raise ValueError(
            f"{vocabulary.path}: positions are counted from the padding token, which has id {order[1]}, but "
            f"config.json has pad_token_id = {padding}"
        )


def fairseq_args(config: dict[str, Any], max_positions: int) -> argparse.Namespace:
    """Return the options of the checkpoint: plain values, so that it loads with weights_only."""
    source = {"model_type": config["model_type"]}
    name = config.get("_name_or_path")
    if isinstance(name, str) and name and not os.path.isabs(name):
        source["name"] = name
    return argparse.Namespace(
        arch="roberta",
        task="masked_lm",
        criterion="masked_lm",
        data="",
        **{ours: config[theirs] for ours, theirs in SIZES.items()},
        activation_fn=config.get("hidden_act", "gelu"),
        layer_norm_eps=config.get("layer_norm_eps", 1e-12),
        dropout=config.get("hidden_dropout_prob", 0.1),
        attention_dropout=config.get("attention_probs_dropout_prob", 0.1),
        max_positions=max_positions,
        tokens_per_sample=max_positions,
        source=source,
    )


def checkpoint_of(state: State, config: dict[str, Any]) -> dict[str, Any]:
    """Return what fairseq's trainer and checkpoint_utils expect in a file, at update 0."""
    rows = state["encoder.sentence_encoder.embed_positions.weight"].size(0)
    return {
        "args": fairseq_args(config, max_positions=rows - 2),
        "model": state,
        "optimizer_history": [
            {
                "criterion_name": "MaskedLmLoss",
                "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {"best": None},
                "num_updates": 0,
            }
        ],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }


# --- the result compared with transformers' own model ---------------------------------------------


def load_fairseq(folder: Path) -> RobertaModel:
    """Build fairseq's RoBERTa from DST's two files, with the source's LayerNorm eps."""
    from fairseq.data import Dictionary
    from fairseq.models.roberta import RobertaModel

    torch.serialization.add_safe_globals([argparse.Namespace])
    checkpoint = torch.load(str(folder / "model.pt"), map_location="cpu", weights_only=True)
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    dictionary.add_symbol("<mask>")
    args = copy.copy(checkpoint["args"])
    model = RobertaModel.build_model(args, SimpleNamespace(source_dictionary=dictionary))
    state = dict(checkpoint["model"])
    for name, tensor in model.state_dict().items():
        if name.startswith("encoder.lm_head."):  # absent if the source has none
            state.setdefault(name, tensor)
    model.load_state_dict(state, strict=True)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = args.layer_norm_eps  # fairseq has no option for it
    return model.eval()


def load_transformers(folder: Path) -> torch.nn.Module:
    """Load the source folder with transformers' AutoModel; nothing is downloaded."""
    from transformers import AutoModel, logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = AutoModel.from_pretrained(str(folder), local_files_only=True, add_pooling_layer=False)
    return model.float().eval()


def random_batch(order: list[int], max_positions: int) -> tuple[Tensor, Tensor]:
    """Return fairseq ids and the same sentences in Hugging Face ids, both B x T, right-padded.

    Real tokens are drawn from the whole vocabulary but the padding; one sentence has full length
    (at most 128, to stay quick).
    """
    generator = torch.Generator().manual_seed(SEED)
    longest = min(max_positions, 128)
    lengths = [longest, max(longest // 2, 1), min(3, longest)]
    tokens = torch.randint(0, len(order) - 1, (len(lengths), longest), generator=generator)
    tokens = tokens + (tokens >= 1).long()  # skips id 1, the padding
    for row, length in zip(tokens, lengths):
        row[0] = 0
        row[length:] = 1
    return tokens, torch.tensor(order)[tokens]


@torch.no_grad()
def largest_difference(source: Path, converted: Path, order: list[int]) -> tuple[float, float]:
    """Return max |a - b| and max |b| over the last hidden states a (fairseq), b (transformers).

    Only real tokens count; every token has segment 0.
    """
    ours = load_fairseq(converted)
    tokens, hf_tokens = random_batch(order, ours.max_positions())
    real = tokens != 1  # B x T
    a, _ = ours(tokens, features_only=True)  # B x T x C
    theirs = load_transformers(source)
    b = theirs(input_ids=hf_tokens, attention_mask=real.long()).last_hidden_state  # B x T x C
    return (a - b)[real].abs().max().item(), b[real].abs().max().item()


def verify(source: Path, converted: Path, order: list[int]) -> None:
    """Raise unless fairseq and transformers agree on a random padded batch.

    |a - b| <= 1e-5 * max(1, max |b|): large models have hidden values of ten and more, where
    single precision itself ends at 1e-5.
    """
    difference, largest = largest_difference(source, converted, order)
    print(f"largest difference from transformers: {difference:.2e} (hidden values to {largest:.1f})")
    if not difference <= TOLERANCE * max(1.0, largest):  # so written, NaN fails too
        raise InputError(f"the result differs from transformers by {difference:.2e}; nothing written")


# --- the command ----------------------------------------------------------------------------------


def publish(work: Path, target: Path) -> None:
    """Move the finished files of `work` into `target`; a failure leaves `target` as it was."""
    if not target.exists():
        work.rename(target)
        return
    replaced = [name for name in reversed(FILES) if (target / name).exists()]
    aside = {name: work / f"old.{name}" for name in replaced}
    try:
        for name, path in aside.items():
            (target / name).replace(path)
        for name in FILES:
            (work / name).replace(target / name)
    except BaseException:
        for name, path in aside.items():
            if path.exists():
                path.replace(target / name)
        for name in set(FILES) - set(aside):
            if not (work / name).exists():
                (target / name).unlink()
        raise


def convert(source: Path, target: Path, check: bool = False, force: bool = False) -> dict[str, Any]:
    """Convert `source` into `target` and return the checkpoint.

    Raises InputError or OSError, with `target` untouched: files are made in a hidden folder beside
    it, checked, and moved when complete.
    """
    target = target.resolve()  # through a link, so that the folder beside it is on the same disk
    present = [name for name in FILES if (target / name).exists()]
    if present and not force or target.is_file():
        what = f"already has {' and '.join(present)}: give --force" if present else "is a file: name a folder"
        raise InputError(f"DST {target} {what}")
    try:
        config, vocabulary = read_config(source), read_vocabulary(source)
        order = fairseq_order(vocabulary)
        symbols = dictionary_symbols(vocabulary, order)
        check_vocabulary(vocabulary, config, order)
        checkpoint = checkpoint_of(convert_weights(read_weights(source), config, order), config)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"SRC {source} cannot be converted: {error}") from None

    sweep(target)
    with scratch_folder(target) as scratch:
        work = scratch / "new"
        work.mkdir()
        write_dictionary(symbols, work / "dict.txt")
        torch.save(checkpoint, str(work / "model.pt"))
        if check:
            verify(source, work, order)
        publish(work, target)
    return checkpoint


def write_dictionary(symbols: list[str], path: Path) -> None:
    """Write dict.txt with fairseq's Dictionary."""
    from fairseq.data import Dictionary

    dictionary = Dictionary()
    for symbol in symbols:
        dictionary.add_symbol(symbol)
    dictionary.save(str(path))


def report(checkpoint: dict[str, Any], config: dict[str, Any], target: Path) -> None:
    """Print what was converted, and what a fairseq RoBERTa cannot keep of it."""
    args, state = checkpoint["args"], checkpoint["model"]
    print(
        f"{target / 'model.pt'}: {args.source['model_type']}, {args.encoder_layers} layers of "
        f"width {args.encoder_embed_dim}, {config['vocab_size']} tokens, "
        f"{args.max_positions} positions"
    )
    if "encoder.lm_head.bias" not in state:
        print("note: no masked-LM head tied to the embeddings in the source, so none in model.pt")
    if config.get("type_vocab_size", 2) > 1:
        print(
            "note: fairseq's RoBERTa has no segment embeddings; segment 0 is folded into the "
            "positions, so sentence B of a pair reads as segment 0"
        )


@command_line("convert_hf")
def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", metavar="SRC", type=named_path, help="folder saved by transformers")
    parser.add_argument("target", metavar="DST", type=named_path, help="folder for model.pt and dict.txt")
    parser.add_argument("--verify", action="store_true", help="compare with transformers' own model")
    parser.add_argument("--force", action="store_true", help="replace DST's model.pt and dict.txt")
    options = parser.parse_args(argv)
    checkpoint = convert(options.source, options.target, options.verify, options.force)
    report(checkpoint, read_config(options.source), options.target)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("convert_hf: terminated; nothing written"))
    main()
