"""A backbone's weights: their names, whether they fit a model, and how processes share them in their file."""

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
# The sizes that a checkpoint records, each with the value that fairseq assumes where an older file lacks it.
GEOMETRY: dict[str, Any] = {**dict.fromkeys(SHAPE), "activation_fn": "gelu", "layer_norm_eps": 1e-5}
DRAWS = (Tensor.normal_, Tensor.uniform_)
ALIGNMENT = 64  # bytes, as torch aligns: products of matrices that lie otherwise may round otherwise


class Undrawn(TorchFunctionMode):
    """Do not draw the random values with which tensors begin, since those of a file replace them.

    Drawing takes seconds, and as much memory again, at the size of RoBERTa-large. A training draws all the same, since
    its later draws of a seed depend on it.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        # the functions of nn.init and of fairseq end in DRAWS
        if func in DRAWS or getattr(func, "__module__", "") == nn.init.__name__:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


@dataclass
class Backbone:
    """A checkpoint file that was read."""

    path: str
    args: dict[str, Any]  # the options that it records
    weights: dict[str, Tensor]  # under the names of today
    fingerprint: Callable[..., str]  # SHA-256 of the tensors whose names begin so; by default the encoder's
    opened: os.stat_result | None = None  # the file, if the weights are read from it while they are used

    @property
    def sizes(self) -> dict[str, Any]:
        return {name: self.args.get(name, assumed) for name, assumed in GEOMETRY.items()}

    def check_lm_head(self) -> None:
        """Raise InputError unless the file has a language model's head, over the encoder's own word embeddings."""
        weight, words = self.weights.get(TIED), self.weights[STACK + "embed_tokens.weight"]
        whole = all(LM_HEAD + name in self.weights for name in LM_HEAD_PARTS)
        shares_words = weight is None or weight.dtype == words.dtype and torch.equal(weight, words)
        if not whole or not shares_words:
            state = "has other word embeddings in" if whole else "lacks"
            raise InputError(
                f"--predict-with mlm: the backbone {self.path} {state} its LM head ({LM_HEAD}*): give one of a masked "
                "language model, such as roberta.large, or --predict-with head"
            )


def check_geometry(backbone: Backbone, args: Any, dictionary: Dictionary) -> None:
    """Raise InputError unless sizes and dictionary are the backbone's.

    The backbone's are the sizes that it records, the lengths of its tables, and the symbols of a dict.txt beside it.
    """
    positions = backbone.weights[STACK + "embed_positions.weight"].size(0) - dictionary.pad() - 1
    for name, value in {**backbone.sizes, "max_positions": positions}.items():
        if value is not None and value != getattr(args, name):
            raise InputError(
                f"{flag_name(name)} is {getattr(args, name)} but the backbone {backbone.path} has {value}: give "
                f"{flag_name(name)} {value}, another --backbone, or --arch roberta_idpg, which takes the backbone's "
                "sizes (in the file of a sweep arch: roberta_idpg)"
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
    """Return weights that can replace ``parameters``: same type, separate memory. Those that are trained are copies."""
    result, end = {}, 0
    # in the order of memory, so that a tensor overlaps another if it begins before the end of those in front of it
    for name, value in sorted(weights.items(), key=lambda item: item[1].data_ptr()):
        parameter, begin = parameters.get(name), value.data_ptr()
        overlaps, end = begin < end, max(end, begin + value.numel() * value.element_size())
        is_trained = parameter is not None and parameter.requires_grad
        needs_copy = overlaps or begin % ALIGNMENT or not value.is_contiguous() or is_trained
        typed = value if parameter is None else value.to(parameter.dtype)
        result[name] = typed.contiguous().clone() if needs_copy else typed
    return result


class SharedWeights(NamedTuple):
    """The file from which a model reads frozen weights, until the model is moved or made half precision."""

    path: str
    opened: os.stat_result  # size, time of last change and the like of the file when it was opened
    name: str  # of one of these weights
    address: int  # where in memory this weight is read

    @classmethod
    def of(cls, model: Any, backbone: Backbone) -> Optional["SharedWeights"]:
        """Return the file, or None if every weight that the model computes with has been copied."""
        if backbone.opened is None:
            return None
        for name, parameter in model.named_parameters():
            source = backbone.weights.get(name)
            if source is not None and name.startswith(model.parts_read) and source.data_ptr() == parameter.data_ptr():
                return cls(backbone.path, backbone.opened, name, parameter.data_ptr())
        return None

    def check(self, model: Any) -> None:
        """Raise ModelLost if the file was written to since; one that was removed or replaced is still open."""
        parameter = model.get_parameter(self.name)
        # the file does not matter once its weights were copied, or where nothing stands at its path
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
