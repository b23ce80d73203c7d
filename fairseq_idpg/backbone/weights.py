"""A backbone's weights: their names, whether they fit a model, and how they stay in their file, shared by processes."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Optional

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from preprocess.dictionary import read_dictionary
from preprocess.flags import flag_name

from ..errors import InputError, ModelLost

ENCODER = "encoder."
STACK = "encoder.sentence_encoder."
LM_HEAD = "encoder.lm_head."
TIED = "encoder.lm_head.weight"  # the word embeddings
VERSION = "encoder.sentence_encoder.version"
LM_HEAD_PARTS = ("dense.weight", "dense.bias", "layer_norm.weight", "layer_norm.bias", "bias")
SHAPE = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads")
# What a checkpoint records of its geometry, with the value fairseq assumes where an older file is silent.
GEOMETRY: dict[str, Any] = {**dict.fromkeys(SHAPE), "activation_fn": "gelu", "layer_norm_eps": 1e-5}
DRAWS = (Tensor.normal_, Tensor.uniform_)
ALIGNMENT = 64  # bytes, torch's own: products of matrices that lie otherwise may round otherwise


class Undrawn(TorchFunctionMode):
    """Leave tensors without the random values that they begin with, since those of a file take their place.

    To draw them takes seconds and as much memory again at the size of RoBERTa-large. A training draws them: what it
    draws afterwards, of a seed, depends on it. The functions of ``nn.init`` and of fairseq end in DRAWS.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in DRAWS or getattr(func, "__module__", "") == nn.init.__name__:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


@dataclass
class Backbone:
    """A checkpoint file that was read."""

    path: str
    args: dict[str, Any]  # the options that it records
    weights: dict[str, Tensor]  # under the names of today
    digest: Callable[[tuple[str, ...]], str]  # beginnings of names -> SHA-256 of the tensors with such names
    opened: os.stat_result | None = None  # the file that they are read from as long as they are used, if it is

    def fingerprint(self, parts: tuple[str, ...] = (STACK,)) -> str:
        """Return the SHA-256 of the encoder's tensors, or of those of other ``parts``."""
        return self.digest(parts)

    @property
    def sizes(self) -> dict[str, Any]:
        """The options of ``GEOMETRY`` as the checkpoint records them."""
        return {name: self.args.get(name, assumed) for name, assumed in GEOMETRY.items()}

    def check_lm_head(self) -> None:
        """Raise InputError unless the file has a language model's head, over the encoder's own word embeddings."""
        weight, words = self.weights.get(TIED), self.weights[STACK + "embed_tokens.weight"]
        whole = all(LM_HEAD + name in self.weights for name in LM_HEAD_PARTS)
        shares_words = weight is None or weight.dtype == words.dtype and torch.equal(weight, words)
        if not whole or not shares_words:
            what = "word embeddings of its own in its" if whole else "no"
            raise InputError(
                f"--predict-with mlm: the backbone {self.path} has {what} LM head ({LM_HEAD}*): give one of a masked "
                "language model, such as roberta.large, or --predict-with head"
            )


def check_geometry(backbone: Backbone, args: Any, dictionary: Dictionary) -> None:
    """Raise InputError unless sizes and dictionary are the backbone's.

    Compared are what the checkpoint records, the length of its tables, and the symbols of a dict.txt beside it.
    """
    positions = backbone.weights[STACK + "embed_positions.weight"].size(0) - dictionary.pad() - 1
    theirs = {**backbone.sizes, "max_positions": positions}
    for name, value in theirs.items():
        if value is not None and value != getattr(args, name):
            raise InputError(
                f"{flag_name(name)} is {getattr(args, name)} but the backbone {backbone.path} has {value}: give "
                f"{flag_name(name)} {value} or another --arch or --backbone"
            )

    rows, beside = len(backbone.weights[STACK + "embed_tokens.weight"]), Path(backbone.path).with_name("dict.txt")
    if rows != len(dictionary):
        raise InputError(
            f"the data's dictionary has {len(dictionary)} symbols but the backbone {backbone.path} has {rows}: "
            "preprocess the data with the backbone's dict.txt (fairseq-preprocess --srcdict)"
        )
    symbols = read_dictionary(beside) if beside.is_file() else dictionary.symbols
    differing = [i for i, (a, b) in enumerate(zip(symbols, dictionary.symbols)) if a != b]
    if differing:
        i = differing[0]
        raise InputError(
            f"the data's dictionary differs from {beside} in {len(differing)} symbols (id {i}: "
            f"{dictionary.symbols[i]!r}, backbone {symbols[i]!r}): preprocess the data with that dict.txt"
        )


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
    """A file in which frozen weights of a model are, as long as the model is neither moved nor made half."""

    path: str
    opened: os.stat_result  # size, time of last change and the like of the file when it was opened
    name: str  # of one of these weights
    address: int  # where in memory that one is read

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
        """Raise ModelLost where the file was written to since.

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
