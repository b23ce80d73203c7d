"""Runs whose training step has code of its own: every preset, the places of prompts, caches, options."""

from typing import Any

from fairseq_idpg.methods.registry import PRESETS

IDPG = {"method": "m-idpg-phm", "phm_n": 4}
OURS = {"criterion": "sentence_prediction_idpg"}
MLM = {"method": "lpt-npg", "predict_with": "mlm"}
ENTRIES: dict[str, dict[str, Any]] = {
    **{f"position {place}": {**IDPG, "task": {"prompt_position": place}} for place in range(1, 5)},
    **{f"IDPG, {place}": {**IDPG, "prompt_insertion": place} for place in ("replace", "key-value", "key-value-input")},
    "IDPG, late": {**IDPG, "prompt_insertion": "late", "prompt_layers": "1,2"},
    "P-tuning v2, late": {"method": "p-tuning-v2", "prompt_insertion": "late", "prompt_layers": "1,2"},
    "residual": {**IDPG, "generator_residual": True, "generator_layer_norm": True},
    "released residual": {**IDPG, "generator_residual": True, "generator_residual_norm": "released"},
    "mean-pooled": {**IDPG, "representation": "mean-pooled", "prompt_layers": "first"},
    "token-mean": {**IDPG, "representation": "token-mean", "prompt_layers": "first"},
    "dropout of M(x)": {**IDPG, "representation_dropout": True, "generator_dropout": 0.5},
    "trained backbone": {**IDPG, "no_freeze_backbone": True},
    "SMoP's dropout": {"method": "smop", "smop_noise": "dropout", "smop_balance": 0.01, **OURS},
    "SMoP, keys": {"method": "smop", "prompt_insertion": "key-value", "prompt_layers": "all", "smop_chosen": 2},
    "SMoP, late": {"method": "smop", "prompt_insertion": "late", "prompt_layers": "1"},
    "AdaMix, none shared": {"method": "adamix", "adamix_shared": "none", **OURS},
    "AdaMix, one pass": {"method": "adamix", "adamix_consistency": 0.0},
    "ATTEMPT, keys": {"method": "attempt", "prompt_insertion": "key-value", "source_rows": 8},
    "DePT at 4": {"method": "dept", "task": {"prompt_position": 4}},
    "EPT at 2": {"method": "ept", "task": {"prompt_position": 2}},
    "EPT as printed": {"method": "ept", "ept_fusion": "printed"},
    "n drawn": {"method": "adapter-drop", "adapter_drop": "0", "adapter_drop_random": True},
    "adapters' dropout": {"method": "adapter", "adapter_dropout": 0.1},
    "learned scale": {"method": "adapter-parallel", "adapter_place": "both", "adapter_scale": "learned"},
    "LoRA's dropout": {"method": "lora", "lora_dropout": 0.1},
    "prefix dropout": {"method": "prefix-tuning", "prefix_dropout": 0.1},
    **{f"ID-SPAM of {what}": {"method": "id-spam", "generator_input": what} for what in ("last", "words")},
    "joined": {"method": "m-idpg-phm+compacter+lora", "phm_n": 4},
    "mlm": MLM,
    "mlm over the classes": {**MLM, "verbaliser_loss": "verbalisers"},
    "mlm, IDPG at 4": {**IDPG, "predict_with": "mlm", "task": {"prompt_position": 4}},
    "groups": {**IDPG, "optimizer": "grouped_adam", "groups": {"head_lr": 3.0, "prompt_lr": 2.0}},
    "pairs twice": {**IDPG, "task": {"swap_pairs": "append"}},
}
CASES = {**{name: {"method": name} for name in PRESETS}, **ENTRIES}
