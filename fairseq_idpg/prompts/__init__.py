"""WHAT a prompt is: one file per method, and the registry that names the paper's rows."""

from . import head_only, idpg, task_prompts  # noqa: E402, F401, I001
from .registry import METHODS, Method, register_method  # noqa: F401 (first: the methods register themselves)
