"""WHAT a prompt is: one file per method; each registers its rows of the paper's tables."""

from . import idpg, task_prompts  # noqa: F401
