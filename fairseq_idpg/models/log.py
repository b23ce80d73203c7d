"""What the log says about a model when a run starts."""

import logging
from typing import Any

from .checkpoint import hexadecimal

logger = logging.getLogger(__name__)


def log_model(model: Any, position: int) -> None:
    """Method, parameters, representation, position and backbone, a line each."""
    counts = model.parameter_counts()
    method, head, backbone = counts["method"], counts["head"], counts["backbone"]
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    total = sum(counts.values())
    part = sum(p.numel() for p in model.encoder.sentence_encoder.parameters() if p.requires_grad)
    state = "trained" if part == backbone else f"frozen but for {part:,} in LayerNorms" if part else "frozen"
    logger.info(
        f"method {model.args.method}: {trainable:,} trainable of {total:,} parameters ({trainable / total:.3%}): "
        f"method {method:,} ({method / backbone:.3%} of the backbone), head {head:,}, "
        f"backbone {backbone:,} {state}"
    )
    if model.method is not None:
        place = f" from position {position}" if model.prompt_length else ""
        representation = f"; representation {model.method.representation}" if model.method.representation else ""
        logger.info(f"{model.method.describe()}{place}{representation}")
    logger.info(f"backbone: {model.args.backbone} (SHA-256 {hexadecimal(model.backbone_fingerprint)})")
