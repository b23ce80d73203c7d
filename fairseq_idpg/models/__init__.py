"""The model ``roberta_idpg`` and its architectures."""

from . import roberta_idpg  # noqa: F401
