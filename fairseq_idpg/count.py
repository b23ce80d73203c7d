"""Trainable parameters of every method, beside the paper's Table 2: ``python -m fairseq_idpg.count --arch ARCH``.

Nothing is loaded or allocated: the modules are built on torch's meta device. Head not counted. The paper's K is 1,024.
"""

import argparse
from typing import Any, Dict, List, Tuple

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.models.roberta.model import base_architecture

from .methods.base import Geometry
from .methods.registry import PRESETS, find_preset
from .models.config import METHOD_OPTIONS, fill_method_options
from .representations.kinds import GLOVE
from .tasks import sentence_prediction_idpg  # noqa: F401 (registers what --arch names)

GLOVE_WIDTH = 300
ROBERTA_SYMBOLS = 50265


def architecture(name: str, method: str) -> argparse.Namespace:
    """The options of ``--arch NAME --method METHOD``."""
    args = argparse.Namespace(**dict.fromkeys(METHOD_OPTIONS), method=method, no_freeze_backbone=False)
    args.max_positions = 512
    ARCH_CONFIG_REGISTRY[name](args)
    base_architecture(args)
    if find_preset(method).defaults.get("representation") == GLOVE:
        args.representation_width = GLOVE_WIDTH
    fill_method_options(args)
    return args


def method_parameters(args: argparse.Namespace) -> int:
    """Parameters of the method itself."""
    with torch.device("meta"):
        module = find_preset(args.method).build(args, Geometry.of(args))
    return 0 if module is None else sum(parameter.numel() for parameter in module.parameters())


def backbone_parameters(args: argparse.Namespace, symbols: int = ROBERTA_SYMBOLS) -> int:
    """Parameters of the encoder, embeddings and layers, without its LM head."""
    width, inner = args.encoder_embed_dim, args.encoder_ffn_embed_dim
    embeddings = (symbols + args.max_positions + 2) * width + 2 * width  # words, positions, LayerNorm
    attention = 4 * (width * width + width)
    feed_forward = 2 * width * inner + inner + width
    return embeddings + args.encoder_layers * (attention + feed_forward + 4 * width)  # two LayerNorms


def rows(arch: str) -> List[Tuple[str, int, float, str]]:
    """(method, trainable parameters, share of the backbone, the paper's figure)."""
    counted: Dict[str, Any] = {name: architecture(arch, name) for name in PRESETS}
    backbone = backbone_parameters(next(iter(counted.values())))
    found = []
    for name, args in counted.items():
        trained = backbone if args.no_freeze_backbone else method_parameters(args)
        paper = PRESETS[name].paper if arch == "roberta_idpg_large" else ""
        found.append((name, trained, trained / backbone, paper))
    return sorted(found, key=lambda row: row[1])


def main() -> None:
    choices = sorted(name for name, model in ARCH_MODEL_REGISTRY.items() if name.startswith("roberta_idpg"))
    parser = argparse.ArgumentParser("python -m fairseq_idpg.count", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--arch", choices=choices, default="roberta_idpg_large")
    print(f"{'method':20}{'trainable':>14}{'of backbone':>13}{'paper':>8}")
    for name, trained, share, paper in rows(parser.parse_args().arch):
        print(f"{name:20}{trained:14,}{share:13.3%}{paper:>8}")


if __name__ == "__main__":
    main()
