"""What the log says about a model when a run starts."""

import logging
from typing import Any

from .saving import hexadecimal

logger = logging.getLogger(__name__)


def log_model(model: Any, position: int) -> None:
    """Method, parameters, representation, position and backbone, a line each."""
    counts = model.parameter_counts()
    method, head, backbone = counts["method"], counts["head"], counts["backbone"]
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    total = sum(counts.values())
    logger.info(
        f"method {model.args.method}: {trainable:,} trainable of {total:,} parameters ({trainable / total:.3%}): "
        f"method {method:,} ({method / backbone:.3%} of the backbone), head {head:,}, "
        f"backbone {backbone:,} {'trained' if model.args.no_freeze_backbone else 'frozen'}"
    )
    if model.method is not None:
        representation = model.args.representation if model.method.reads_representation else "none"
        layers = ",".join(map(str, model.method.places))
        logger.info(
            f"prompt: length {model.prompt_length} at position {position}; layers {layers}; "
            f"representation {representation}"
        )
    logger.info(f"backbone: {model.args.backbone} (SHA-256 {hexadecimal(model.backbone_sha256)})")
