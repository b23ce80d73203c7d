"""The batches and models of benchmarks/step_time.py, of this plugin and of fairseq; step_peers.py has the others.

Batches are drawn from a seed, the same for every case. All models have the same random RoBERTa, a head for 2 classes,
and dropout 0.1. A model comes as (model, tokens -> arguments of its forward, what to take from its result). Libraries
are imported where they are used: the peers' transformers is another one than .venv's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partialmethod
from typing import Any

import numpy as np
import torch
from settings import LONGEST, SHORTEST, Settings
from step_cases import Case
from torch import Tensor, nn

VOCAB, PAD, BOS, EOS, MASK = 50265, 1, 0, 2, 50264
SPECIALS = 4  # <s>, <pad>, </s>, <unk>
PERIOD = 2**16
HEAD = "sentence_classification_head"
Batch = tuple[Tensor, Tensor]  # tokens, B x T, and labels, B
Order = Callable[[np.ndarray, np.ndarray], np.ndarray]
Arguments = Callable[[Tensor], dict[str, Any]]
Built = tuple[nn.Module, Arguments, Callable[[Any], Tensor]]


def examples(count: int, mean: int, spread: float) -> list[np.ndarray]:
    """Draw rows ``<s> A </s>`` with lengths from N(mean, spread x mean), cut off at 0.3 and 1.5 times the mean."""
    draw = np.random.RandomState(0)
    lengths = np.rint(draw.normal(mean, spread * mean, count))
    lengths = np.clip(lengths, max(2, round(SHORTEST * mean)), round(LONGEST * mean)).astype(int)
    rows = [draw.randint(SPECIALS, MASK, length) for length in lengths]
    for row in rows:
        row[0], row[-1] = BOS, EOS
    return rows


def batches(settings: Settings, order: Order | None = None) -> list[Batch]:
    """Draw the steps' batches, padded to the longest row of each; ``order`` as the task's data sets have it."""
    size = settings.batch
    rows = examples(size * settings.steps, settings.length, settings.length_spread)
    labels = np.random.RandomState(1).randint(0, 2, len(rows))
    index = np.arange(len(rows))
    if order is not None:
        index = order(index, np.array([len(row) for row in rows]))
    found = []
    for start in range(0, len(rows), size):
        chosen = index[start : start + size]
        tokens = [torch.from_numpy(rows[i].astype(np.int64)) for i in chosen]
        padded = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True, padding_value=PAD)
        found.append((padded, torch.from_numpy(labels[chosen].astype(np.int64))))
    return found


def prompted(tokens: Tensor, length: int) -> Tensor:
    """Insert placeholders of the prompt after ``<s>`` (position 0), as the task does."""
    block = torch.full((len(tokens), length), MASK, dtype=tokens.dtype)
    return torch.cat([tokens[:, :1], block, tokens[:, 1:]], 1)


@contextmanager
def repeated_draws() -> Iterator[None]:
    """Draw PERIOD numbers of a larger tensor and repeat them.

    fairseq draws RoBERTa's weights on the CPU, three times, which takes longer at its large size than a GPU needs for
    many steps. To a clock all values are the same.
    """
    draws = {name: getattr(Tensor, name) for name in ("normal_", "uniform_")}
    for name, draw in draws.items():
        setattr(Tensor, name, partialmethod(_repeated, draw))
    try:
        yield
    finally:
        for name, draw in draws.items():
            setattr(Tensor, name, draw)


def _repeated(tensor: Tensor, draw: Callable[..., Tensor], *args: Any, **given: Any) -> Tensor:
    if tensor.numel() <= PERIOD or not tensor.is_contiguous():
        return draw(tensor, *args, **given)
    drawn, flat = draw(tensor.new_empty(PERIOD), *args, **given), tensor.view(-1)
    whole = len(flat) // PERIOD * PERIOD
    flat[:whole].view(-1, PERIOD).copy_(drawn)
    flat[whole:].copy_(drawn[: len(flat) - whole])
    return tensor


@cache
def word_dictionary(mask: bool = True) -> Any:
    """Return a fairseq dictionary of VOCAB symbols, or without ``<mask>``, as files of data have it."""
    from fairseq.data import Dictionary

    symbols = Dictionary()
    for i in range(VOCAB - SPECIALS - 1):
        symbols.add_symbol(f"w{i}")
    if mask:
        assert (symbols.add_symbol("<mask>"), symbols.pad()) == (MASK, PAD)
    return symbols


def build(case: Case, settings: Settings) -> Built:
    """Build the model of a case; ``settings`` have the prompt length of this case."""
    return {"method": _method, "floor": _floor}[case.maker](case, settings)


def _arguments(method: str, settings: Settings) -> argparse.Namespace:
    from fairseq.models.roberta.model import base_architecture

    from fairseq_idpg.count import GLOVE_WIDTH
    from fairseq_idpg.methods.registry import find_preset
    from fairseq_idpg.models.config import METHOD_OPTIONS, fill_method_options
    from fairseq_idpg.representations.kinds import GLOVE

    args = argparse.Namespace(**dict.fromkeys(METHOD_OPTIONS), method=method, no_freeze_backbone=False, backbone=None)
    args.save_full_model, args.layer_norm_eps, args.max_positions = False, 1e-5, settings.positions
    args.encoder_layers, args.encoder_embed_dim = settings.layers, settings.width
    args.encoder_ffn_embed_dim, args.encoder_attention_heads = settings.ffn, settings.heads
    defaults = find_preset(method).defaults
    if "prompt_length" in defaults:
        args.prompt_length = settings.prompt_length
    if defaults.get("representation") == GLOVE:
        args.representation_width = GLOVE_WIDTH
    fill_method_options(args)
    base_architecture(args)
    return args


def _method(case: Case, settings: Settings) -> Built:
    import fairseq_idpg  # noqa: F401 (registers the methods)
    from fairseq_idpg.backbone.encoder import OpenRobertaEncoder
    from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel
    from fairseq_idpg.representations.kinds import GLOVE

    args = _arguments(case.what, settings)
    args.checkpoint_activations, args.gpu_graphs = case.checkpointed, "auto"
    if not case.dropout:
        args.dropout = args.attention_dropout = 0.0
    model = RobertaIDPGModel(args, OpenRobertaEncoder(args, word_dictionary()))
    model.register_classification_head(HEAD, num_classes=2)
    model.backbone_loaded = True  # a random one
    word_vectors = model.method is not None and model.method.representation == GLOVE

    def arguments(tokens: Tensor) -> dict[str, Any]:
        padded = bool(tokens.eq(PAD).any())  # as the task tells it
        given = {"src_tokens": tokens, "padded": padded, "classification_head_name": HEAD}
        if model.prompt_length:
            given["prompted_tokens"] = prompted(tokens, model.prompt_length)
            given["prompt_offset"] = torch.ones(len(tokens), dtype=torch.long)
        if case.cached or word_vectors:
            given["representation"] = torch.randn(len(tokens), args.representation_width or settings.width)
        if case.cached_states:
            given["states"] = torch.randn(tokens.size(1), len(tokens), settings.width)
        return given

    return model, arguments, lambda result: result[0]


def _floor(case: Case, settings: Settings) -> Built:
    from fairseq.models.roberta.model import RobertaEncoder, RobertaModel

    args = _arguments("head-only", settings)
    model = RobertaModel(args, RobertaEncoder(args, word_dictionary()))
    model.requires_grad_(False)
    model.register_classification_head(HEAD, num_classes=2)
    words = model.encoder.sentence_encoder.embed_tokens
    words.register_forward_hook(lambda module, inputs, output: output.detach().requires_grad_())

    def arguments(tokens: Tensor) -> dict[str, Any]:
        rows = prompted(tokens, settings.prompt_length or case.rows) if case.what == "prompted" else tokens
        return {"src_tokens": rows, "classification_head_name": HEAD}

    return model, arguments, lambda result: result[0]
