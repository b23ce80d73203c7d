"""The peers among the models of benchmarks/step_time.py: the same RoBERTa in transformers, tuned by peft or adapters.

Rows, hidden sizes, ranks and activations are those of the preset that a peer stands beside; all else, dropout too, is
the library's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from settings import Settings
from step_cases import Case
from step_models import BOS, EOS, PAD, VOCAB, Built
from torch import Tensor, nn

MODULES = {  # of our LoRA's projections
    "q": r"attention\.self\.query",
    "k": r"attention\.self\.key",
    "v": r"attention\.self\.value",
    "out": r"attention\.output\.dense",
    "fc1": r"intermediate\.dense",
    "fc2": r"output\.dense",
}


def build(case: Case, settings: Settings) -> Built:
    """As step_models.build."""
    return {"peft": _peft, "adapters": _adapters, "transformers": _transformers}[case.maker](case, settings)


def _roberta(settings: Settings) -> Any:
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


def _logits(result: Any) -> Tensor:
    return result.logits


def _transformers(case: Case, settings: Settings) -> Built:
    model = _roberta(settings)
    for name, parameter in model.roberta.named_parameters():
        parameter.requires_grad_(case.what == "fine-tuning" or name.endswith(".bias"))
    return model, _inputs, _logits


def _peft(case: Case, settings: Settings) -> Built:
    model = _roberta(settings)
    import peft

    rows, width, options = settings.prompt_length, settings.width, case.options

    def prefix_mlp(task: str) -> Any:
        hidden = options["reparameterization_hidden_size"]
        sizes = {"prefix_projection": True, "encoder_hidden_size": hidden}
        return peft.PrefixTuningConfig(task_type=task, num_virtual_tokens=rows, **sizes)

    def p_tuning(task: str) -> Any:
        network = {"encoder_reparameterization_type": "LSTM", "encoder_num_layers": 2, "encoder_dropout": 0.0}
        sizes = {"num_virtual_tokens": rows, "encoder_hidden_size": width // 2}
        return peft.PromptEncoderConfig(task_type=task, **network, **sizes)

    def lora(task: str) -> Any:
        asked = options["lora_projections"]
        modules = MODULES.values() if asked == "all" else [MODULES[name] for name in asked.split(",")]
        changed = rf".*\.layer\.\d+\.({'|'.join(modules)})"
        sizes = {
            "r": options["lora_rank"],
            "lora_alpha": options["lora_alpha"],
            "lora_dropout": options["lora_dropout"],
        }
        return peft.LoraConfig(task_type=task, target_modules=changed, **sizes)

    configs: dict[str, Callable[[str], Any]] = {
        "prompt-tuning": lambda task: peft.PromptTuningConfig(task_type=task, num_virtual_tokens=rows),
        "p-tuning": p_tuning,
        "prefix-tuning": lambda task: peft.PrefixTuningConfig(task_type=task, num_virtual_tokens=rows),
        "prefix-mlp": prefix_mlp,
        "lora": lora,
    }
    kind, features, _ = case.what.partition("-features")
    if features:
        config = configs[kind]("FEATURE_EXTRACTION")
        return _WithHead(peft.get_peft_model(model.roberta, config), model.classifier), _inputs, lambda result: result
    return peft.get_peft_model(model, configs[kind]("SEQ_CLS")), _inputs, _logits


class _WithHead(nn.Module):
    """The head over the last hidden states, where peft's own way to it fails."""

    def __init__(self, body: nn.Module, classifier: nn.Module):
        super().__init__()
        self.body, self.classifier = body, classifier

    def forward(self, **inputs: Any) -> Tensor:
        return self.classifier(self.body(**inputs).last_hidden_state)


def _adapters(case: Case, settings: Settings) -> Built:
    model = _roberta(settings)
    import adapters

    rows, layers, options = settings.prompt_length, settings.layers, case.options
    sizes = {}
    if "adapter_hidden_size" in options:
        sizes["reduction_factor"] = settings.width / options["adapter_hidden_size"]
        sizes["non_linearity"] = options["adapter_activation"]

    def parallel() -> Any:
        return adapters.ParBnConfig(scaling=float(options["adapter_scale"]), **sizes)

    def prefix_mlp() -> Any:
        hidden = options["reparameterization_hidden_size"]
        return adapters.PrefixTuningConfig(prefix_length=rows, bottleneck_size=hidden)

    configs: dict[str, Callable[[], Any]] = {
        "prompt-tuning": lambda: adapters.PromptTuningConfig(prompt_length=rows),
        "prefix-tuning": lambda: adapters.PrefixTuningConfig(prefix_length=rows, flat=True),  # no network before them
        "prefix-mlp": prefix_mlp,
        "mam": lambda: adapters.ConfigUnion(prefix_mlp(), parallel()),
        "adapter": lambda: adapters.DoubleSeqBnConfig(**sizes),
        "adapter-pfeiffer": lambda: adapters.SeqBnConfig(**sizes),
        "adapter-drop": lambda: adapters.DoubleSeqBnConfig(leave_out=list(range(5 * layers // 12)), **sizes),
        "adapter-parallel": parallel,
        "compacter": lambda: adapters.CompacterConfig(**sizes),
        "lora": lambda: adapters.LoRAConfig(
            r=options["lora_rank"], alpha=options["lora_alpha"], attn_matrices=options["lora_projections"].split(",")
        ),
    }
    adapters.init(model)
    model.add_adapter("benchmark", config=configs[case.what]())
    model.train_adapter("benchmark")
    return model, _inputs, _logits
