"""A classification head that starts from that of another task's checkpoint."""

import logging
from typing import Any

from torch import Tensor

from ..backbone.loading import read_checkpoint
from ..errors import InputError
from ..saving.record import Record, labels_here, listed, saved_record
from ..saving.tensors import HEADS

logger = logging.getLogger(__name__)
OPTION = "--head-init-from"


def load_head(model: Any, path: str, name: str, ours: Record) -> None:
    """Copies the head of a checkpoint, such as that of supplementary training, into ``model``'s head ``name``.

    Its classes are those of this run by meaning or name, whatever their order.

    Args:
        ours: record of this run's data.

    Raises:
        InputError: the file is no checkpoint, or holds no such head, or one of another size or for other classes.
    """
    options, tensors = read_checkpoint(path, OPTION)
    head = model.classification_heads[name]
    state = saved_head(tensors, name)
    own = {key: value.shape for key, value in head.state_dict().items()}
    theirs = {key: value.shape for key, value in state.items()}
    if own != theirs:
        described = f"{theirs['out_proj.weight'][0]} classes" if "out_proj.weight" in theirs else "none"
        raise InputError(
            f"{OPTION} {path}: its head {name} ({described}) does not fit this one "
            f"({own['out_proj.weight'][0]} classes): leave the option out, and the head starts anew"
        )
    record = saved_record(tensors, f"{OPTION} {path}")
    if record is None:
        logger.warning(f"{OPTION} {path} records no label names: whether its classes are this run's is not checked")
    else:
        rows = matching_rows(record, ours, path)
        state.update({key: value[rows] for key, value in state.items() if key.startswith("out_proj.")})
    theirs_fn, own_fn = options.get("pooler_activation_fn") or "tanh", model.args.pooler_activation_fn
    if theirs_fn != own_fn:
        logger.warning(
            f"{OPTION} {path}: its head was trained with --pooler-activation-fn {theirs_fn}, and this run's has "
            f"{own_fn}: give the same, unless this is meant"
        )
    head.load_state_dict(state)


def saved_head(tensors: dict[str, Any], name: str) -> dict[str, Tensor]:
    """The tensors of the head ``name``, or of the only one there is; empty without any."""
    names = {key.split(".")[1] for key in tensors if key.startswith(HEADS)}
    prefix = f"{HEADS}{name if name in names or len(names) != 1 else names.pop()}."
    return {key[len(prefix) :]: value for key, value in tensors.items() if key.startswith(prefix)}


def matching_rows(theirs: Record, ours: Record, path: str) -> list[int]:
    """Which of their logits is each of ours.

    Raises:
        InputError: other label names, or scores of another scale.
    """
    if theirs.labels is None or ours.labels is None:
        if None not in (theirs.scale, ours.scale) and theirs.scale != ours.scale:
            raise InputError(
                f"{OPTION} {path}: its head is for scores divided by {theirs.scale:g}, and this run's are divided by "
                f"{ours.scale:g}: leave the option out, and the head starts anew"
            )
        return [0]
    labels = labels_here(theirs, ours, training=True)
    if sorted(labels) != sorted(ours.labels):
        raise InputError(
            f"{OPTION} {path}: its head is for the labels {listed(theirs.labels)}, and this run's are "
            f"{listed(ours.labels)}: leave the option out, and the head starts anew"
        )
    return [labels.index(label) for label in ours.labels]
