"""Options of ``roberta_idpg``, and its named sizes."""

import argparse
import contextlib
import os
from dataclasses import dataclass
from typing import Any, Optional

from fairseq import utils
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from hydra.core.config_store import ConfigStore
from omegaconf import II, OmegaConf, open_dict

from ..backbone.weights import SHAPE
from ..methods.options import fill_options, joined_options, options_of
from ..methods.registry import PRESETS, check_file, find_preset, register_file
from ..names import SECTIONS, documented

Activation: Any = ChoiceEnum(utils.get_available_activation_fns())
WORDS = "mlm"
PredictWith: Any = ChoiceEnum(["head", WORDS])
GPUGraphs: Any = ChoiceEnum(["auto", "off"])
VerbaliserLoss: Any = ChoiceEnum(["vocabulary", "verbalisers"])
# --arch roberta_idpg_large and so on; explicit options win
SIZES: dict[str, dict[str, Any]] = {
    "roberta_idpg_base": dict(zip(SHAPE, (12, 768, 3072, 12))),
    "roberta_idpg_large": dict(zip(SHAPE, (24, 1024, 4096, 16))),
    # all-MiniLM-L6-v2, a BERT: checkpoints/convert_hf.py makes the backbone
    "roberta_idpg_minilm": {**dict(zip(SHAPE, (6, 384, 1536, 12))), "layer_norm_eps": 1e-12},
}


@dataclass
class BackboneConfig(FairseqDataclass):
    backbone: Optional[str] = documented(
        "fairseq RoBERTa checkpoint to start from; without it, --restore-file", II("checkpoint.restore_file")
    )
    no_freeze_backbone: bool = documented("train the backbone too (fine-tuning, supplementary training)", False)
    head_init_from: Optional[str] = documented("checkpoint whose classification head is the start", None)
    save_full_model: bool = documented("write the frozen backbone into every checkpoint as well", False)
    encoder_layers: int = documented("layers L", 12)
    encoder_embed_dim: int = documented("width d", 768)
    encoder_ffn_embed_dim: int = documented("inner width of the feed-forward", 3072)
    encoder_attention_heads: int = documented("attention heads H", 12)
    activation_fn: Activation = documented("activation of the feed-forward", "gelu")
    layer_norm_eps: float = documented("epsilon of every LayerNorm (RoBERTa 1e-5, BERT 1e-12)", 1e-5)
    dropout: float = documented("dropout of the backbone", 0.1)
    attention_dropout: float = documented("dropout of attention weights", 0.1)
    activation_dropout: float = documented("dropout after the feed-forward's activation", 0.0)
    pooler_activation_fn: Activation = documented("activation of the classification head", "tanh")
    pooler_dropout: float = documented("dropout of the classification head", 0.0)
    checkpoint_activations: bool = documented(
        "keep the input of each layer for the backward pass and run the layer again there: less memory, more time, "
        "the same numbers",
        False,
    )
    gpu_graphs: GPUGraphs = documented(
        "auto: on one GPU, replay recorded training passes (CUDA graphs); off: launch each kernel from Python", "auto"
    )
    max_positions: int = II("task.max_positions")
    no_save_optimizer_state: bool = II("checkpoint.no_save_optimizer_state")


@dataclass
class PredictionConfig(FairseqDataclass):
    predict_with: PredictWith = documented(
        "a classification head on <s>, which is trained, or mlm: the backbone's own LM head at <mask>, which is not",
        "head",
    )
    template: Optional[str] = documented(
        "with mlm: the input, with {0} and {1} for its sentences and one <mask>, such as '{0} It was <mask> .'; "
        "for tasks of LPT's paper as published",
        None,
    )
    verbalisers: Optional[str] = documented(
        "with mlm: the word of each class, 'bad,good' in the order of label/dict.txt or '1=good,0=bad'; as published",
        None,
    )
    verbaliser_loss: VerbaliserLoss = documented(
        "with mlm: cross entropy over the whole vocabulary (as published) or over the verbalisers", "vocabulary"
    )


def predicts_words(cfg: Any) -> bool:
    """Return whether classes are words that the LM head predicts."""
    return str(getattr(cfg, "predict_with", "head")) == WORDS


def method_config() -> Any:
    configs = [method.config for preset in PRESETS.values() for method in preset.methods]
    return joined_options("MethodConfig", configs, beside=[BackboneConfig, PredictionConfig, *SECTIONS])


MethodConfig: Any = method_config()
METHOD_OPTIONS = options_of(MethodConfig)


@dataclass
class RobertaIDPGConfig(MethodConfig, PredictionConfig, BackboneConfig):
    """All options of the model. Those of methods are None until the chosen ``method`` fills them."""

    method: str = documented("preset to train, or several joined by +; its options can be changed", "m-idpg-phm")
    method_file: Optional[str] = documented("Python file of a method that is not part of this package", None)


def use_method_file(path: str | os.PathLike[str] | None) -> None:
    """Register the methods of a file, and add their options to the model's; see ``register_file``."""
    if path is None:
        return
    register_file(str(path))
    added = {name: declared for name, declared in options_of(method_config()).items() if name not in METHOD_OPTIONS}
    METHOD_OPTIONS.update(added)
    config: Any = RobertaIDPGConfig
    config.__dataclass_fields__.update(added)
    for name, declared in added.items():
        setattr(config, name, None)
        config.__annotations__[name] = declared.type
    if added:
        node = config()
        node._name = "roberta_idpg"
        ConfigStore.instance().store(name=node._name, group="model", node=node, provider="fairseq")


def open_options(**options: Any) -> argparse.Namespace:
    """Return options of a model as a command line leaves them, for sizes and presets to fill the rest."""
    open_ones = {**dict.fromkeys(METHOD_OPTIONS), "no_freeze_backbone": False, "save_full_model": False}
    return argparse.Namespace(**{**open_ones, **options})


def fill_method_options(cfg: Any) -> None:
    """Fill the options of ``cfg.method`` in ``cfg`` (a config or a namespace) in place."""
    method_file = check_file(getattr(cfg, "method_file", None), f"--method {cfg.method}")
    preset = find_preset(cfg.method)
    with open_dict(cfg) if OmegaConf.is_config(cfg) else contextlib.nullcontext():
        cfg.method_file = method_file
        for method in preset.methods:
            method.derive_options(cfg)
        fill_options(cfg, preset, METHOD_OPTIONS)
        cfg.no_freeze_backbone = cfg.no_freeze_backbone or preset.trains_backbone
