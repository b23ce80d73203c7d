"""What the log says about a model when a run starts."""

import logging
from typing import Any

from .saving import hexadecimal

logger = logging.getLogger(__name__)


def log_model(model: Any, position: int) -> None:
    """Method, parameters, representation, position and backbone, a line each."""
    counts = model.parameter_counts()
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    total = sum(counts.values())
    logger.info(
        "method %s: %s trainable of %s parameters (%.3f%%): method %s (%.3f%% of the backbone), head %s, backbone %s %s",
        model.args.method,
        f"{trainable:,}",
        f"{total:,}",
        100 * trainable / total,
        f"{counts['method']:,}",
        100 * counts["method"] / counts["backbone"],
        f"{counts['head']:,}",
        f"{counts['backbone']:,}",
        "trained" if model.args.no_freeze_backbone else "frozen",
    )
    if model.method is not None:
        representation = model.args.representation if model.method.reads_representation else "none"
        logger.info(
            "prompt: length %d at position %d; layers %s; representation %s",
            model.prompt_length,
            position,
            ",".join(map(str, model.method.places)),
            representation,
        )
    logger.info("backbone: %s (SHA-256 %s)", model.args.backbone, hexadecimal(model.backbone_sha256))
