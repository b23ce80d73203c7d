"""Compare a converted checkpoint with the transformers library's own model."""

from __future__ import annotations

import argparse
import copy
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from preprocess.errors import InputError

if TYPE_CHECKING:
    from fairseq.models.roberta import RobertaModel

SEED = 1


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
    try:
        from transformers import AutoModel, logging
    except ImportError as error:
        raise InputError("--verify needs transformers (pip install transformers)") from error
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
