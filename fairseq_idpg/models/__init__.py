"""The model ``roberta_idpg`` and its architectures."""

from . import architectures, roberta_idpg  # noqa: F401
