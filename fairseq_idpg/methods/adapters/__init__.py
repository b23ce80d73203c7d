"""Adapters: small networks inside the frozen layers; one file per kind, each registers its rows of the tables."""

from . import bottleneck, compacter  # noqa: F401
