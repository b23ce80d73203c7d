"""The peers among the models of benchmarks/step_time.py: the same RoBERTa in transformers, tuned by peft or adapters.

Rows, hidden sizes, ranks and activations are those of the preset that a peer stands beside; all else, dropout too, is
the library's own. Libraries are imported where they are used: a peer's process finds those of setup_peers.sh.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from common import BOS, EOS, PAD, VOCAB, Settings
from step_time import Case
from torch import Tensor, nn

# a model, tokens -> arguments of its forward, its result -> logits
Built = tuple[nn.Module, Callable[[Tensor], dict[str, Any]], Callable[[Any], Tensor]]
# Of our LoRA's projections, those that peers have.
MODULES = {name: rf"attention\.self\.{theirs}" for name, theirs in (("q", "query"), ("k", "key"), ("v", "value"))}


def build_peer(case: Case, settings: Settings) -> Built:
    """Build the model of a peer; ``settings`` have the prompt length of this case."""
    from transformers import RobertaConfig, RobertaForSequenceClassification, logging

    logging.set_verbosity_error()
    sizes = {
        **{"hidden_size": settings.width, "num_hidden_layers": settings.layers, "num_labels": 2},
        **{"num_attention_heads": settings.heads, "intermediate_size": settings.ffn},
        **{"vocab_size": VOCAB, "type_vocab_size": 1, "max_position_embeddings": settings.positions + 2},
    }
    config = RobertaConfig(**sizes, layer_norm_eps=1e-5, pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS)
    model: Any = RobertaForSequenceClassification(config)
    tuned = {"peft": _peft, "adapters": _adapters, "transformers": _transformers}[case.maker](model, case, settings)
    return tuned, lambda tokens: {"input_ids": tokens, "attention_mask": tokens.ne(PAD).long()}, lambda out: out.logits


def _transformers(model: Any, case: Case, settings: Settings) -> nn.Module:
    for name, parameter in model.roberta.named_parameters():
        parameter.requires_grad_(case.what == "fine-tuning" or name.endswith(".bias"))
    return model


def _peft(model: Any, case: Case, settings: Settings) -> nn.Module:
    import peft

    options = case.options
    kind, features, _ = case.what.partition("-features")
    task = "FEATURE_EXTRACTION" if features else "SEQ_CLS"
    config: Any
    if kind == "lora":
        modules = "|".join(MODULES[name] for name in options["lora_projections"].split(","))
        sizes = {"r": options["lora_rank"], **{name: options[name] for name in ("lora_alpha", "lora_dropout")}}
        config = peft.LoraConfig(task_type=task, **sizes, target_modules=rf".*\.layer\.\d+\.({modules})")
    else:
        of_rows = peft.PromptTuningConfig if kind == "prompt-tuning" else peft.PrefixTuningConfig
        config = of_rows(task_type=task, num_virtual_tokens=settings.prompt_length)
    if features:
        return _WithHead(peft.get_peft_model(model.roberta, config), model.classifier)
    return peft.get_peft_model(model, config)


class _WithHead(nn.Module):
    """The head over the last hidden states, where peft's own way to it fails."""

    def __init__(self, body: nn.Module, classifier: nn.Module):
        super().__init__()
        self.body, self.classifier = body, classifier

    def forward(self, **inputs: Any) -> Any:
        return SimpleNamespace(logits=self.classifier(self.body(**inputs).last_hidden_state))


def _adapters(model: Any, case: Case, settings: Settings) -> nn.Module:
    import adapters

    rows, options, sizes = settings.prompt_length, case.options, {}
    if "adapter_hidden_size" in options:
        sizes["reduction_factor"] = settings.width / options["adapter_hidden_size"]
        sizes["non_linearity"] = options["adapter_activation"]
    configs: dict[str, Callable[[], Any]] = {
        "prompt-tuning": lambda: adapters.PromptTuningConfig(prompt_length=rows),
        "prefix-tuning": lambda: adapters.PrefixTuningConfig(prefix_length=rows, flat=True),  # no network before them
        "adapter": lambda: adapters.DoubleSeqBnConfig(**sizes),
        "adapter-pfeiffer": lambda: adapters.SeqBnConfig(**sizes),
        "compacter": lambda: adapters.CompacterConfig(**sizes),
        "lora": lambda: adapters.LoRAConfig(
            r=options["lora_rank"], alpha=options["lora_alpha"], attn_matrices=options["lora_projections"].split(",")
        ),
    }
    adapters.init(model)
    model.add_adapter("benchmark", config=configs[case.what]())
    model.train_adapter("benchmark")
    return model
