"""The classification head alone on the frozen backbone: the baseline every prompt has to beat."""

from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import FairseqDataclass

from ..registry import Geometry, register_method


@dataclass
class HeadOnlyConfig(FairseqDataclass):
    """No options: nothing is injected."""


def build(cfg: Any, geometry: Geometry) -> None:
    """No module: the head belongs to the model and is always trained."""
    return None


register_method("head-only", build, HeadOnlyConfig)
