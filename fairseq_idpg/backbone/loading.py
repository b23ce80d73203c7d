"""Reading a fairseq RoBERTa checkpoint as the frozen backbone, and refusing one that does not fit."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.configs import CheckpointConfig
from torch import Tensor

from preprocess.dictionary import read_dictionary
from preprocess.errors import InputError
from preprocess.flags import flag_name

from ..saving.checksum import tensors_digest
from ..saving.configuration import check_is_roberta, typed
from ..saving.fingerprints import KnownFile, recall
from ..saving.reading import read_file
from ..saving.tensors import ENCODER, LM_HEAD, OBJECTS, STACK, TIED, VERSION, is_ours, room
from ..saving.torch_files import is_archive

# Geometry that a checkpoint records, with the value fairseq assumes where an older file is silent.
GEOMETRY = {
    "encoder_layers": None,
    "encoder_embed_dim": None,
    "encoder_ffn_embed_dim": None,
    "encoder_attention_heads": None,
    "activation_fn": "gelu",
    "layer_norm_eps": 1e-5,
}
TYPES = {
    **dict.fromkeys(GEOMETRY, Optional[int]),
    "activation_fn": Optional[str],
    "layer_norm_eps": Optional[float],
    "max_positions": Optional[int],
    "backbone": Optional[str],
}
LM_HEAD_PARTS = ("dense.weight", "dense.bias", "layer_norm.weight", "layer_norm.bias", "bias")
DECODER = "decoder."  # the encoder's name in the released archives
NO_BACKBONE = CheckpointConfig.restore_file  # fairseq's default --restore-file: no backbone was named


@dataclass
class Backbone:
    """A checkpoint file: its path, its recorded options of ``TYPES`` and its tensors, under the names of today.

    Attributes:
        known: what was found out about the file before, where that is kept.
        opened: the file that the tensors are read from as long as they are used; None where they are in memory.
    """

    path: str
    args: dict[str, Any]
    weights: dict[str, Tensor]
    known: KnownFile | None = None
    opened: os.stat_result | None = None

    def fingerprint(self, parts: tuple[str, ...] = (STACK,)) -> str:
        """``weights_digest``, which is not made again for a file that is known."""
        of_what = " ".join(parts)
        if self.known is not None and of_what in self.known.digests:
            return self.known.digests[of_what]
        found = weights_digest(self.weights, parts)
        if self.known is not None:
            self.known.keep(of_what, found)
        return found

    @property
    def has_lm_head(self) -> bool:
        """Whether every part of a language model's head is there, but for the word embeddings."""
        return all(LM_HEAD + name in self.weights for name in LM_HEAD_PARTS)

    def check_lm_head(self) -> None:
        """Raise InputError unless the file has a language model's head, over the encoder's own word embeddings."""
        weight, words = self.weights.get(TIED), self.weights[STACK + "embed_tokens.weight"]
        shares_words = weight is None or weight.dtype == words.dtype and torch.equal(weight, words)
        if not self.has_lm_head or not shares_words:
            what = "word embeddings of its own in its" if self.has_lm_head else "no"
            raise InputError(
                f"--predict-with mlm: the backbone {self.path} has {what} LM head ({LM_HEAD}*): give one of a masked "
                "language model, such as roberta.large, or --predict-with head"
            )


def weights_digest(weights: dict[str, Tensor], parts: tuple[str, ...]) -> str:
    """SHA-256 of those of RoBERTa's tensors whose names begin with one of ``parts``: names, types, shapes and values.

    The same weights in another file, of another version of torch or with other options or heads beside them, are the
    same backbone; rounded to half precision they are another.
    """
    left_out = (VERSION, TIED)
    return tensors_digest({n: v for n, v in weights.items() if n.startswith(parts) and n not in left_out})


def backbone_path(named: str) -> str:
    """Return the absolute path of --backbone; raise InputError where none is named, or there is no such file."""
    none = not named or named == NO_BACKBONE
    if none or not os.path.isfile(named):
        raise InputError(
            f"--backbone {'is missing' if none else f'{named} is not a file'}: give the path of a fairseq RoBERTa's "
            "model.pt, which checkpoints/README.md says how to get or convert (for a saved checkpoint whose backbone "
            "has moved: --model-overrides \"{'backbone': 'NEW/model.pt'}\")"
        )
    return os.path.abspath(named)


def read_checkpoint(path: str, option: str, **how: bool) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(model options, tensors) of a fairseq RoBERTa, this package's or fairseq's own; ``how``: see ``read_file``.

    ``option`` is the one that named the file, for the error. The options are as they stand in the file, of any type.

    Raises:
        InputError: see ``read_file`` and ``check_is_roberta``.
    """
    state = read_file(path, option, **how)
    return check_is_roberta(state, f"{option} {path}"), state["model"]


def read_backbone(path: str) -> Backbone:
    """Reads the backbone's checkpoint.

    Its tensors stay in the file until they are needed, and a file that is known is not looked through again.

    Raises:
        InputError: see ``read_file``; it holds only what was trained.
    """
    known = recall(path)
    opened = os.stat(path) if is_archive(path) else None
    args, weights = read_checkpoint(path, "--backbone", mapped=True, checked=known is not None and known.checked)
    if known is not None and not known.is_same():  # it was replaced while it was read
        known, opened = None, os.stat(path) if is_archive(path) else None
        args, weights = read_checkpoint(path, "--backbone", mapped=True)
    args = typed(args, TYPES, f"--backbone {path}")
    if is_ours(weights) and not any("sentence_encoder.embed_tokens" in name for name in weights):
        raise InputError(
            f"--backbone {path} holds prompts only; it was trained on the backbone {args.get('backbone')}: give that "
            "file"
        )
    return Backbone(path, args, names_of_today(weights), known, opened)


def names_of_today(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """RoBERTa's tensors under their present names, as fairseq renames and splits those of its older versions."""
    found = {}
    for name, value in weights.items():
        name = ENCODER + name[len(DECODER) :] if name.startswith(DECODER) else name
        name = name.replace(".emb_layer_norm.", ".layernorm_embedding.")
        joined, _, kind = name.rpartition(".in_proj_")
        if kind in ("weight", "bias") and value.dim() and len(value) % 3 == 0:
            found.update({f"{joined}.{part}_proj.{kind}": third for part, third in zip("qkv", value.chunk(3))})
        else:
            found[name] = value
    return found


def recorded_sizes(backbone: Backbone) -> dict[str, Any]:
    """Return the options of ``GEOMETRY`` as the checkpoint records them."""
    return {name: backbone.args.get(name, assumed) for name, assumed in GEOMETRY.items()}


def encoder_numbers(args: Any) -> int:
    """Return what the layers and positions of an encoder take, in numbers, before it is built."""
    width, inner = args.encoder_embed_dim, args.encoder_ffn_embed_dim
    return args.encoder_layers * (width * (4 * width + 2 * inner) + 16 * OBJECTS) + args.max_positions * width


def check_geometry(backbone: Backbone, args: Any, dictionary: Dictionary) -> None:
    """Compare what the checkpoint records, and the length of its tables, with the model's options and dictionary.

    Raises:
        InputError: naming the option, its value and the backbone's.
    """
    theirs = recorded_sizes(backbone)
    theirs["max_positions"] = backbone.weights[STACK + "embed_positions.weight"].size(0) - dictionary.pad() - 1
    for name, value in theirs.items():
        if value is not None and value != getattr(args, name):
            raise InputError(
                f"{flag_name(name)} is {getattr(args, name)} but the backbone {backbone.path} has {value}: give "
                f"{flag_name(name)} {value} or another --arch or --backbone"
            )
    if encoder_numbers(args) > room(backbone.weights):  # an untrained one is built from what its file says
        raise InputError(f"--backbone {backbone.path} holds less than the layers that it says it has: give another")
    check_vocabulary(backbone, dictionary)


def check_vocabulary(backbone: Backbone, dictionary: Dictionary) -> None:
    """Raise InputError unless the data's dictionary is the backbone's.

    It must have the same size, and the same symbols where dict.txt stands beside it.
    """
    rows, beside = len(backbone.weights[STACK + "embed_tokens.weight"]), Path(backbone.path).with_name("dict.txt")
    if rows != len(dictionary):
        raise InputError(
            f"the data's dictionary has {len(dictionary)} symbols but the backbone {backbone.path} has {rows}: "
            "preprocess the data with the backbone's dict.txt (fairseq-preprocess --srcdict)"
        )
    theirs = read_dictionary(beside) if beside.is_file() else dictionary.symbols
    differing = [i for i, (a, b) in enumerate(zip(theirs, dictionary.symbols)) if a != b]
    if differing:
        i = differing[0]
        raise InputError(
            f"the data's dictionary differs from {beside} in {len(differing)} symbols (id {i}: "
            f"{dictionary.symbols[i]!r}, backbone {theirs[i]!r}): preprocess the data with that dict.txt"
        )
