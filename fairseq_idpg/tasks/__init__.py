"""The task ``sentence_prediction_idpg``: where the prompt goes in each example."""

from . import task  # noqa: F401
