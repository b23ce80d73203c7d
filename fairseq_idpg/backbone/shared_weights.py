"""Weights of a backbone that stay in its file, where processes share them."""

import os
from typing import Any, NamedTuple, Optional

from torch import Tensor, nn

from ..errors import ModelLost
from .loading import Backbone

ALIGNMENT = 64  # bytes, torch's own: products of matrices that lie otherwise may round otherwise


def as_own(weights: dict[str, Tensor], parameters: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    """Weights that can take the place of ``parameters`` of the same names: of their type, none in another's memory.

    Those of parameters that are trained are copies.
    """
    found, end = {}, 0
    for name, value in sorted(weights.items(), key=lambda item: item[1].data_ptr()):
        own, begin = parameters.get(name), value.data_ptr()
        shared, end = begin < end, max(end, begin + value.numel() * value.element_size())
        needs_copy = shared or begin % ALIGNMENT or not value.is_contiguous() or (own is not None and own.requires_grad)
        typed = value if own is None else value.to(own.dtype)
        found[name] = typed.contiguous().clone() if needs_copy else typed
    return found


class SharedWeights(NamedTuple):
    """A file in which frozen weights of a model are, as long as the model is neither moved nor made half.

    Attributes:
        path: of the file.
        opened: size, time of last change and the like of the file when it was opened.
        name: of one of these weights.
        address: where in memory that one is read.
    """

    path: str
    opened: os.stat_result
    name: str
    address: int

    @classmethod
    def of(cls, model: Any, backbone: Backbone) -> Optional["SharedWeights"]:
        """None where every weight that the model computes with has been copied."""
        if backbone.opened is None:
            return None
        for name, parameter in model.named_parameters():
            source = backbone.weights.get(name)
            if source is not None and name.startswith(model.parts_read) and source.data_ptr() == parameter.data_ptr():
                return cls(backbone.path, backbone.opened, name, parameter.data_ptr())
        return None

    def check(self, model: Any) -> None:
        """Raises ModelLost where the file was written to since.

        One that was removed, or another one that was put in its place, does no harm: what was opened is still there.
        """
        parameter = model.get_parameter(self.name)
        try:
            now = os.stat(self.path)
        except OSError:
            return
        if parameter.device.type != "cpu" or parameter.data_ptr() != self.address:
            return
        same_place = (now.st_ino, now.st_dev) == (self.opened.st_ino, self.opened.st_dev)
        if same_place and (now.st_size, now.st_mtime_ns) != (self.opened.st_size, self.opened.st_mtime_ns):
            raise ModelLost(
                f"--backbone {self.path} was written to while it was in use, so that its weights are no longer those "
                "that were read: start again, and replace such a file with mv, which leaves the old one to those who "
                "use it"
            )
