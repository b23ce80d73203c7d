"""A classification head that starts from that of another task's checkpoint."""

from typing import Any

from ..backbone.loading import read_checkpoint
from ..errors import InputError


def load_head(model: Any, path: str, name: str) -> None:
    """Copies the head ``name`` of a checkpoint, such as that of supplementary training, into ``model``.

    Raises:
        InputError: the file is no checkpoint, or holds no such head, or one of another size.
    """
    _, tensors = read_checkpoint(path, "--head-init-from")
    prefix = f"classification_heads.{name}."
    head = model.classification_heads[name]
    state = {key[len(prefix) :]: value for key, value in tensors.items() if key.startswith(prefix)}
    own = {key: value.shape for key, value in head.state_dict().items()}
    theirs = {key: value.shape for key, value in state.items()}
    if own != theirs:
        described = f"{theirs['out_proj.weight'][0]} classes" if "out_proj.weight" in theirs else "none"
        raise InputError(
            f"--head-init-from {path}: its head {name} ({described}) does not fit this one "
            f"({own['out_proj.weight'][0]} classes): leave the option out, and the head starts anew"
        )
    head.load_state_dict(state)
