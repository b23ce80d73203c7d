"""How large a model is that a file describes, counted before its memory is taken."""

import argparse
import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from fairseq.models.roberta.model import base_architecture
from torch import Tensor
from torch.nn.modules import module

from ..backbone.weights import Backbone, Undrawn
from ..errors import InputError
from ..methods.base import Geometry, Method
from ..methods.registry import find_preset
from ..saving.tensors import OBJECTS, room
from .config import fill_method_options, open_options


class TooLarge(Exception):
    """A model has more numbers than it may have."""


def method_of(args: argparse.Namespace) -> Method | None:
    """Return the method's module, without memory for its parameters."""
    # to draw on the meta device, torch would import its compiler first
    with torch.device("meta"), Undrawn():
        return find_preset(args.method).build(args, Geometry.of(args))


@contextlib.contextmanager
def at_most(numbers: int) -> Iterator[None]:
    """Raise TooLarge within as soon as the modules that this thread makes have more ``numbers``."""
    left, thread = numbers, threading.get_ident()

    def charge(owner: Any, name: str, tensor: Tensor | None) -> None:
        nonlocal left
        if threading.get_ident() == thread:
            left -= OBJECTS + (0 if tensor is None else tensor.numel())
            if left < 0:
                raise TooLarge

    hooks = (module.register_module_parameter_registration_hook, module.register_module_buffer_registration_hook)
    with contextlib.ExitStack() as stack:
        for register in hooks:
            stack.callback(register(charge).remove)
        yield


def encoder_numbers(args: Any) -> int:
    """Return what the layers and positions of an encoder take, in numbers, before it is built."""
    width, inner = args.encoder_embed_dim, args.encoder_ffn_embed_dim
    return args.encoder_layers * (width * (4 * width + 2 * inner) + 16 * OBJECTS) + args.max_positions * width


def check_encoder_size(args: Any, backbone: Backbone) -> None:
    """Raise InputError where the encoder of ``args`` is much larger than the tensors of its backbone's file.

    An untrained one is built from what its file says, and a checkpoint may come from where the backbone does.
    """
    if encoder_numbers(args) > room(backbone.weights):
        raise InputError(f"--backbone {backbone.path} holds less than the layers that it says it has: give another")


def check_size(model: Mapping[str, Any], task: Mapping[str, Any], tensors: dict[str, Any], what: str) -> None:
    """Raise InputError where options describe a model that is much larger than the tensors of its file.

    ``model``: options of this package's model, or of fairseq's RoBERTa, which has no method; ``what``: the file.
    """
    given = {"max_positions": task.get("max_positions") or 512}
    given.update({name: value for name, value in model.items() if name != "_name" and value is not None})
    ours = "method" in given
    args = open_options(**given) if ours else argparse.Namespace(**given)
    base_architecture(args)
    try:
        if ours:
            fill_method_options(args)
        whole = not ours or args.save_full_model or args.no_freeze_backbone
        width, classes = args.encoder_embed_dim, task.get("num_classes") or 0
        left = room(tensors) - width * (width + classes) - (encoder_numbers(args) if whole else 0)
        with at_most(left):
            if left < 0:
                raise TooLarge
            if ours:
                method_of(args)
    except InputError:
        return  # of options that make no model: the caller that builds one says why
    except (TooLarge, RuntimeError):  # the latter: torch cannot even count them
        raise InputError(f"{what} describes a model that is much larger than its tensors: give another") from None
