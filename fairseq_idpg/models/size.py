"""The size of the model that a file describes, counted before its memory is taken."""

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
from ..methods.registry import check_file, find_preset
from ..saving.shared_folder import ONNX
from ..saving.tensors import OBJECTS, room
from .config import fill_method_options, open_options


class TooLarge(Exception):
    """A model has too many numbers for its file."""


def method_of(args: argparse.Namespace) -> Method | None:
    """Return the method's module, without memory for its parameters."""
    # torch would import its compiler to draw on the meta device, so nothing is drawn
    with torch.device("meta"), Undrawn():
        return find_preset(args.method).build(args, Geometry.of(args))


@contextlib.contextmanager
def at_most(numbers: int) -> Iterator[None]:
    """Raise TooLarge as soon as the modules that this thread makes have more than ``numbers`` numbers."""
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
    """Return how many numbers the layers and positions of an encoder take, before it is built."""
    width, inner = args.encoder_embed_dim, args.encoder_ffn_embed_dim
    return args.encoder_layers * (width * (4 * width + 2 * inner) + 16 * OBJECTS) + args.max_positions * width


def check_encoder_size(args: Any, backbone: Backbone) -> None:
    """Raise InputError where the encoder of ``args``, which a file may set, is much larger than its backbone's file."""
    if encoder_numbers(args) > room(backbone.weights):
        raise InputError(f"--backbone {backbone.path} is too small for the layers of its configuration: give another")


def check_size(model: Mapping[str, Any], task: Mapping[str, Any], tensors: dict[str, Any], what: str) -> None:
    """Raise InputError where options describe a model that is much larger than the tensors of its file.

    ``model``: options of this package's model, or of fairseq's RoBERTa, which has no method; ``what``: the file.
    """
    if ONNX in tensors:
        return  # the file is run as it is, and nothing is built from its options
    check_file(model.get("method_file"), what)
    options = {"max_positions": task.get("max_positions") or 512}
    options.update({name: value for name, value in model.items() if name != "_name" and value is not None})
    ours = "method" in options
    args = open_options(**options) if ours else argparse.Namespace(**options)
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
        return  # options that make no model: the caller that builds one says why
    except (TooLarge, RuntimeError):  # RuntimeError: more than torch can count
        raise InputError(f"{what} describes a model that is much larger than its tensors: give another") from None
