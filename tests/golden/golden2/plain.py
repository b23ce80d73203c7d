"""The backbone alone: whether it is loaded as it was meant."""

from __future__ import annotations

from torch import Tensor

from tests.golden.golden2.case import Case
from tests.golden.golden2.family import Family, of_backbone


def backbone_tensors(theirs: dict[str, Tensor], case: Case) -> dict[str, Tensor]:
    return {of_backbone(name): value for name, value in theirs.items()}


FAMILIES = (Family("plain", lambda case: {"method": "head-only"}, backbone_tensors),)
