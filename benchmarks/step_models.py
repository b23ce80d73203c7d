"""The models of benchmarks/step_time.py: (model, batches -> arguments of its forward, what to take from its result).

All have the same random RoBERTa, a head for 2 classes, and dropout 0.1. Libraries are imported where they are used: the
peers' transformers is another one than .venv's (step_peers.py).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from step_cases import Case
from step_data import MASK, PAD, SPECIALS, VOCAB, prompted
from step_settings import Settings
from torch import Tensor, nn

HEAD = "sentence_classification_head"
Arguments = Callable[[Tensor], dict[str, Any]]
Built = tuple[nn.Module, Arguments, Callable[[Any], Tensor]]


def build(case: Case, settings: Settings) -> Built:
    """``settings``: with the prompt length that this case has."""
    return {"method": _method, "floor": _floor}[case.maker](case, settings)


@cache
def _dictionary():
    from fairseq.data import Dictionary

    symbols = Dictionary()
    for i in range(VOCAB - SPECIALS - 1):
        symbols.add_symbol(f"w{i}")
    symbols.add_symbol("<mask>")
    assert (len(symbols), symbols.index("<mask>"), symbols.pad()) == (VOCAB, MASK, PAD)
    return symbols


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
    args.checkpoint_activations = case.checkpointed
    if not case.dropout:
        args.dropout = args.attention_dropout = 0.0
    model = RobertaIDPGModel(args, OpenRobertaEncoder(args, _dictionary()))
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
    model = RobertaModel(args, RobertaEncoder(args, _dictionary()))
    model.requires_grad_(False)
    model.register_classification_head(HEAD, num_classes=2)
    words = model.encoder.sentence_encoder.embed_tokens
    words.register_forward_hook(lambda module, inputs, output: output.detach().requires_grad_())

    def arguments(tokens: Tensor) -> dict[str, Any]:
        rows = prompted(tokens, settings.prompt_length or case.rows) if case.what == "prompted" else tokens
        return {"src_tokens": rows, "classification_head_name": HEAD}

    return model, arguments, lambda result: result[0]
