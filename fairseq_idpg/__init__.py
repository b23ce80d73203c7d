"""Instance-dependent prompt generation (IDPG) for fairseq, loaded with ``--user-dir fairseq_idpg``.

Paper: "IDPG: An Instance-Dependent Prompt Generation Method" (Wu et al., NAACL 2022),
https://arxiv.org/abs/2204.04497

How data flows: a *task* says where the prompt goes in each example. A *model* turns the example into a *representation*
M(x). A *method* turns M(x) into prompt rows, adapters and the like. The frozen *backbone* takes these through its open
slots.

Shape legend used everywhere: B batch, T tokens, t prompt length, d width, m generator hidden size,
n PHM factor, L layers, H heads.
"""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .export import push_to_hub
    from .in_python import train
    from .inference.load import load
    from .models.roberta_idpg import RobertaIDPGModel

# modules of names, imported when a name is asked for: a training needs none but the model's
HOMES = dict(RobertaIDPGModel="models.roberta_idpg", load="inference.load", push_to_hub="export", train="in_python")
__all__ = ["RobertaIDPGModel", "load", "push_to_hub", "train"]

# On a shared machine threads that spin while they wait slow each other down. OpenMP reads this when torch is loaded,
# which fairseq-train does before it imports this package: there it must be set outside.
if "torch" not in sys.modules:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Commands that import ``plugin`` once it is needed: torch and fairseq take seconds.
COMMANDS = "predict serve export encode count analysis options_table preprocess download report sweep".split()


def __getattr__(name: str) -> Any:
    if name in HOMES:
        import_module(f"{__name__}.plugin")  # first, since it checks whether the installed fairseq can be used
        return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _starts_command() -> bool:
    """Return whether ``python -m fairseq_idpg.NAME`` or ``idpg-NAME`` of ``COMMANDS`` is starting."""
    started = os.path.basename(sys.argv[0]) if sys.argv else ""
    if started == "-m":  # while Python looks for the module, which stands in front of its arguments
        started = sys.orig_argv[-len(sys.argv)].removeprefix("-m")
    return started in {f"{front}{name}" for front in (f"{__name__}.", "idpg-") for name in COMMANDS}


if not _starts_command():
    from . import plugin  # noqa: F401
