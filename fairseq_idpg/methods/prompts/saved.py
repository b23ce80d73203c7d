"""What a checkpoint of another task holds of its methods, and taking it over: --prompt-init saved.

For transfer between tasks, as SPoT (see ``spot``) and IDPG's supplementary training (Appendix A.4) do it.
"""

import logging
from typing import Any

import torch
from torch import Tensor

from preprocess.flags import flag_name

from ...backbone.weights import LM_HEAD, STACK
from ...errors import InputError
from ...saving.backbone_file import names_of_today, read_checkpoint, weights_digest
from ...saving.tensors import FINGERPRINT, as_digest
from ..base import WordEmbeddings
from ..options import options_of

logger = logging.getLogger(__name__)


def below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with ``prefix``, without it."""
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}


def saved_methods(tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """Return the values of the method in a checkpoint, or of each of those that it joins."""
    own = below(tensors, "method.")
    numbers = {name.split(".")[1] for name in own if name.startswith("parts.")}
    return [below(own, f"parts.{number}.") for number in sorted(numbers)] or [own]


def differing_names(one: dict[str, Tensor], other: dict[str, Tensor]) -> list[str]:
    """Return names that only one of them has, or whose tensors have another shape."""
    same = {name for name in one.keys() & other.keys() if one[name].shape == other[name].shape}
    return sorted((one.keys() | other.keys()) - same)


def other_meaning(method: Any, cfg: Any, options: dict[str, Any]) -> list[str]:
    """Return options that a checkpoint was trained with and this run has otherwise, of those its values were fitted to.

    Reparameterization is ignored: folded, its rows are rows like others.
    """
    fitted = [n for n, declared in options_of(method.config).items() if not declared.metadata["changeable"]]
    known = {n: options[n] for n in fitted if options.get(n) is not None and "reparameterization" not in n}
    return [
        f"without {flag_name(n)}" if value is False else f"with {flag_name(n)}{'' if value is True else f' {value}'}"
        for n, value in known.items()
        if str(value) != str(getattr(cfg, n))
    ]


def on_other_backbone(options: dict[str, Any], tensors: dict[str, Tensor], words: WordEmbeddings | None) -> bool:
    """Return whether a checkpoint's values were fitted to other weights than this run's; False where either is silent.

    One that trained its backbone holds these weights itself; its fingerprint is of those that it began with.
    """
    ours = None if words is None else words.fingerprint
    if ours is None:
        return False
    if options.get("no_freeze_backbone"):
        trained = names_of_today(tensors)
        digests = [weights_digest(trained, parts) for parts in ((STACK,), (STACK, LM_HEAD))]
        return as_digest(ours) not in digests
    theirs = tensors.get(FINGERPRINT)
    return theirs is not None and not torch.equal(theirs, ours.cpu())


def check_same_kind(method: Any, path: str, options: dict[str, Any]) -> None:
    """Raise InputError for rows where keys and values are wanted, or the reverse: t of each are shaped as 2 t rows."""
    insertion = str(options.get("prompt_insertion") or method.insertion)
    if insertion != method.insertion and any("key-value" in each for each in (insertion, method.insertion)):
        raise InputError(
            f"--prompt-init-from {path} holds a prompt for --prompt-insertion {insertion}, and this run's is for "
            f"{method.insertion}: give the same, or another checkpoint"
        )


def warn_of(path: str, other: list[str]) -> None:
    """Warn of what the values of a checkpoint were fitted to and this run has otherwise, if there is any."""
    if other:
        logger.warning(
            "--prompt-init-from %s was trained %s, which this run has otherwise: give the same, unless this is meant",
            path,
            ", ".join(other),
        )


def load_saved(method: Any, path: str, cfg: Any, words: WordEmbeddings | None = None) -> None:
    """Take all of a method's values from the checkpoint of another task, where it may have been joined with others.

    Values of other options that have the same shapes, or of another backbone of the same width, are a start all the
    same, of which a warning tells.

    Args:
        words: of this run's backbone; None before it is read.

    Raises:
        InputError: it cannot be read, or holds another method or other sizes.
    """
    options, tensors = read_checkpoint(path, "--prompt-init-from")
    check_same_kind(method, path, options)
    own = method.state_dict()
    nearest: list[str] = []
    for state in saved_methods(tensors):
        if not method.training_only:  # a folded prompt needs nothing of what made it
            state = {name: value for name, value in state.items() if not name.startswith("reparameterization.")}
        differing = differing_names(own, state)
        if not differing:
            elsewhere = on_other_backbone(options, tensors, words)
            other = ["on another backbone or with another --predict-with"] if elsewhere else []
            warn_of(path, other + other_meaning(method, cfg, options))
            method.load_state_dict(state)
            return
        nearest = min(nearest or differing, differing, key=len)
    raise InputError(
        f"--prompt-init-from {path} holds another method or other sizes ({nearest[0]} differs): give one that was "
        "trained with the same --method and options"
    )
