"""The models of benchmarks/step_time.py: (model, batches -> arguments of its forward, what to take from its result).

All have the same random RoBERTa, a head for 2 classes, and dropout 0.1. Libraries are imported where they are used: the
peers' transformers is another one than .venv's.
"""

from __future__ import annotations

import argparse
from typing import Any, Callable, Dict, Tuple

import torch
from step_cases import HIDDEN, Case
from step_data import BOS, EOS, MASK, PAD, SPECIALS, VOCAB, prompted
from step_settings import Settings
from torch import Tensor, nn

HEAD = "sentence_classification_head"
Arguments = Callable[[Tensor], Dict[str, Any]]
Built = Tuple[nn.Module, Arguments, Callable[[Any], Tensor]]


def build(case: Case, settings: Settings) -> Built:
    return {"method": _method, "floor": _floor, "peft": _peft, "adapters": _adapters}[case.maker](case, settings)


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

    from fairseq_idpg.methods.registry import find_preset
    from fairseq_idpg.models.config import METHOD_OPTIONS, fill_method_options

    args = argparse.Namespace(**dict.fromkeys(METHOD_OPTIONS), method=method, no_freeze_backbone=False, backbone=None)
    args.save_full_model, args.layer_norm_eps, args.max_positions = False, 1e-5, settings.positions
    args.encoder_layers, args.encoder_embed_dim = settings.layers, settings.width
    args.encoder_ffn_embed_dim, args.encoder_attention_heads = settings.ffn, settings.heads
    if "prompt_length" in find_preset(method).defaults:
        args.prompt_length = settings.prompt_length
    fill_method_options(args)
    base_architecture(args)
    return args


def _method(case: Case, settings: Settings) -> Built:
    import fairseq_idpg  # noqa: F401 (registers the methods)
    from fairseq_idpg.backbone.encoder import OpenRobertaEncoder
    from fairseq_idpg.models.roberta_idpg import RobertaIDPGModel

    args = _arguments(case.what, settings)
    model = RobertaIDPGModel(args, OpenRobertaEncoder(args, _dictionary()))
    model.register_classification_head(HEAD, num_classes=2)
    model.backbone_loaded = True  # a random one

    def arguments(tokens: Tensor) -> dict[str, Any]:
        padded = bool(tokens.eq(PAD).any())  # as the task tells it
        given = {"src_tokens": tokens, "padded": padded, "classification_head_name": HEAD}
        if model.prompt_length:
            given["prompted_tokens"] = prompted(tokens, model.prompt_length)
            given["prompt_offset"] = torch.ones(len(tokens), dtype=torch.long)
        if case.cached:
            given["representation"] = torch.randn(len(tokens), settings.width)
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
        rows = prompted(tokens, settings.prompt_length) if case.what == "prompted" else tokens
        return {"src_tokens": rows, "classification_head_name": HEAD}

    return model, arguments, lambda result: result[0]


def _transformers_roberta(settings: Settings) -> nn.Module:
    from checkpoints.hf_verify import hide_broken_torchaudio

    hide_broken_torchaudio()
    from transformers import RobertaConfig, RobertaForSequenceClassification, logging

    logging.set_verbosity_error()
    config = RobertaConfig(
        vocab_size=VOCAB,
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=settings.ffn,
        max_position_embeddings=settings.positions + 2,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        num_labels=2,
    )
    return RobertaForSequenceClassification(config)


def _inputs(tokens: Tensor) -> dict[str, Any]:
    return {"input_ids": tokens, "attention_mask": tokens.ne(PAD).long()}


def _peft(case: Case, settings: Settings) -> Built:
    model = _transformers_roberta(settings)
    from peft import PrefixTuningConfig, PromptTuningConfig, get_peft_model

    if case.what == "prefix-tuning-features":
        config = PrefixTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=settings.prompt_length)
        return _WithHead(get_peft_model(model.roberta, config), model.classifier), _inputs, lambda result: result
    kind = {"prompt-tuning": PromptTuningConfig, "prefix-tuning": PrefixTuningConfig}[case.what]
    model = get_peft_model(model, kind(task_type="SEQ_CLS", num_virtual_tokens=settings.prompt_length))
    return model, _inputs, lambda result: result.logits


class _WithHead(nn.Module):
    """The head over the last hidden states, where peft's own way to it fails."""

    def __init__(self, body: nn.Module, classifier: nn.Module):
        super().__init__()
        self.body, self.classifier = body, classifier

    def forward(self, **inputs: Any) -> Tensor:
        return self.classifier(self.body(**inputs).last_hidden_state)


def _adapters(case: Case, settings: Settings) -> Built:
    model = _transformers_roberta(settings)
    import adapters
    from adapters import CompacterConfig, PrefixTuningConfig, PromptTuningConfig

    configs = {  # rows and hidden size as ours have them; flat: rows without a network before them, as ours
        "prompt-tuning": lambda: PromptTuningConfig(prompt_length=settings.prompt_length),
        "prefix-tuning": lambda: PrefixTuningConfig(prefix_length=settings.prompt_length, flat=True),
        "compacter": lambda: CompacterConfig(reduction_factor=settings.width / HIDDEN),
    }
    adapters.init(model)
    model.add_adapter("benchmark", config=configs[case.what]())
    model.train_adapter("benchmark")
    return model, _inputs, lambda result: result.logits
