"""Losses and metrics that stay right with several processes."""

from . import sentence_prediction_idpg  # noqa: F401
