"""Optimizers with parameter groups."""

from . import grouped_adam  # noqa: F401
