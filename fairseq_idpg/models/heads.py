"""Heads: the backbone's own LM head as a classifier, and a head that starts from another task's checkpoint."""

import logging
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..saving.backbone_file import read_checkpoint
from ..saving.record import Record, labels_here, listed, saved_record
from ..saving.tensors import HEADS

logger = logging.getLogger(__name__)
OPTION = "--head-init-from"
OTHER_WORDS = "other_words"


class VerbaliserHead(nn.Module):
    """The frozen LM head's logits of a word for each class, at ``<mask>`` (--predict-with mlm).

        h = state at <mask>,  z = W_E LN(gelu(W h + b)) + b_v,  logit of class c = z[word of c]

    It stands in for the classification head and has no parameters: W_E are the word embeddings. ``words`` are the C
    tokens of the classes' words. With ``all_words`` the loss is over the whole vocabulary. Then the pass's ``extra``
    has ``other_words``, B: logsumexp of z less that of the C logits. Added to the cross entropy of the C logits it
    makes that of z.
    """

    words: Tensor

    def __init__(self, lm_head: nn.Module, words: list[int], all_words: bool):
        super().__init__()
        self.parts = (lm_head,)  # in a tuple, so that its parameters stay the encoder's alone
        self.all_words = all_words
        self.register_buffer("words", torch.tensor(words), persistent=False)

    def forward(self, features: Tensor, mask_index: Tensor | None, extra: dict[str, Any], **unused: Any) -> Tensor:
        """B x T x d features, with B indices of ``<mask>``, or B x 1 x d at ``<mask>`` alone -> B x C logits."""
        if mask_index is None:
            assert features.size(1) == 1  # not the states of all tokens, of a batch that lacks its mask_index
            states = features[:, 0]
        else:
            states = features[torch.arange(features.size(0), device=features.device), mask_index]
        (lm_head,) = self.parts
        logits = lm_head(states)
        class_logits = logits[:, self.words]
        if self.all_words:
            extra[OTHER_WORDS] = logits.float().logsumexp(1) - class_logits.float().logsumexp(1)
        return class_logits


def load_head(model: Any, path: str, name: str, ours: Record) -> None:
    """Copy the head of a checkpoint, such as that of supplementary training, into ``model``'s head ``name``.

    Its classes must be those of this run, whose record is ``ours``, by meaning or name, in any order. Raise InputError
    where the file has no such head, or one of another size or for other classes.
    """
    # It is the head of that name, or the only one there is.
    _, tensors = read_checkpoint(path, OPTION)
    names = {key.split(".")[1] for key in tensors if key.startswith(HEADS)}
    prefix = f"{HEADS}{name if name in names or len(names) != 1 else names.pop()}."
    state = {key[len(prefix) :]: value for key, value in tensors.items() if key.startswith(prefix)}
    head = model.classification_heads[name]
    own = {key: value.shape for key, value in head.state_dict().items()}
    if own != {key: value.shape for key, value in state.items()}:
        raise InputError(f"{OPTION} {path}: its head {name} is missing or of other sizes than this run's: leave it out")

    # The rows of its last layer are put into the order of this run's classes.
    record = saved_record(tensors, f"{OPTION} {path}")
    if record is None:
        logger.warning(f"{OPTION} {path} records no label names: whether its classes are this run's is not checked")
    else:
        rows = matching_rows(record, ours, path)
        state.update({key: value[rows] for key, value in state.items() if key.startswith("out_proj.")})
    head.load_state_dict(state)


def matching_rows(theirs: Record, ours: Record, path: str) -> list[int]:
    """Return the row of ``theirs`` of each class of ``ours``; InputError: other labels, or scores of another scale."""
    rows = [0]
    if theirs.labels is None or ours.labels is None:
        same = None in (theirs.scale, ours.scale) or theirs.scale == ours.scale
    else:
        labels = labels_here(theirs, ours, training=True)
        same = sorted(labels) == sorted(ours.labels)
        rows = [labels.index(label) for label in ours.labels] if same else []
    if not same:
        described = (f"the labels {listed(r.labels)}" if r.labels else f"scores / {r.scale}" for r in (theirs, ours))
        raise InputError(f"{OPTION} {path}: its head is for {', and this run is for '.join(described)}: leave it out")
    return rows
