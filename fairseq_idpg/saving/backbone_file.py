"""Reading a fairseq RoBERTa checkpoint as the frozen backbone."""

import os
from functools import partial
from typing import Any, Optional

from fairseq.dataclass.configs import CheckpointConfig
from torch import Tensor

from ..backbone.weights import ENCODER, GEOMETRY, TIED, VERSION, Backbone
from ..errors import InputError
from .checksum import tensors_digest
from .configuration import check_is_roberta, typed
from .fingerprints import KnownFile, load_note
from .reading import read_file
from .tensors import is_ours
from .torch_files import is_archive

TYPES = {
    **dict.fromkeys(GEOMETRY, Optional[int]),
    "activation_fn": Optional[str],
    "layer_norm_eps": Optional[float],
    "max_positions": Optional[int],
    "backbone": Optional[str],
}
DECODER = "decoder."  # the encoder's name in the released archives
NO_BACKBONE = CheckpointConfig.restore_file  # fairseq's default --restore-file: no backbone was named


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
    """Read the backbone's checkpoint.

    Its tensors stay in the file until they are needed, and a file that is known is not looked through again.

    Raises:
        InputError: see ``read_file``; it holds only what was trained.
    """
    known = load_note(path)
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
    weights = names_of_today(weights)
    return Backbone(path, args, weights, partial(known_digest, known, weights), opened)


def known_digest(known: KnownFile | None, weights: dict[str, Tensor], parts: tuple[str, ...]) -> str:
    """Return ``weights_digest``, which is not made again for a file that is known."""
    of_what = " ".join(parts)
    if known is not None and of_what in known.digests:
        return known.digests[of_what]
    found = weights_digest(weights, parts)
    if known is not None:
        known.save_digest(of_what, found)
    return found


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
