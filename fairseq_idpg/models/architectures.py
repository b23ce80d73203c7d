"""Named sizes: ``--arch roberta_idpg_large`` and so on; explicit options win."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from fairseq.models import ARCH_CONFIG_REGISTRY, register_model_architecture

from . import roberta_idpg  # noqa: F401 (the model must be registered first)

SIZES: dict[str, dict[str, Any]] = {
    "roberta_idpg_base": {
        "encoder_layers": 12,
        "encoder_embed_dim": 768,
        "encoder_ffn_embed_dim": 3072,
        "encoder_attention_heads": 12,
    },
    "roberta_idpg_large": {
        "encoder_layers": 24,
        "encoder_embed_dim": 1024,
        "encoder_ffn_embed_dim": 4096,
        "encoder_attention_heads": 16,
    },
    # all-MiniLM-L6-v2, a BERT: checkpoints/convert_hf.py makes the backbone
    "roberta_idpg_minilm": {
        "encoder_layers": 6,
        "encoder_embed_dim": 384,
        "encoder_ffn_embed_dim": 1536,
        "encoder_attention_heads": 12,
        "layer_norm_eps": 1e-12,
    },
}


def _stay_off_tpu(args: Any) -> None:
    """fairseq's parser takes --bf16 for a wish to train on TPUs; where there is no torch_xla it is none."""
    if getattr(args, "bf16", False) and find_spec("torch_xla") is None:
        args.tpu = False


def _architecture(size: dict) -> Callable[[Any], None]:
    def fill(args: Any) -> None:
        for name, value in size.items():
            setattr(args, name, getattr(args, name, value))
        _stay_off_tpu(args)

    return fill


ARCH_CONFIG_REGISTRY["roberta_idpg"] = _architecture({})  # registered with the model, as one that changes nothing
for _name, _size in SIZES.items():
    register_model_architecture("roberta_idpg", _name)(_architecture(_size))
