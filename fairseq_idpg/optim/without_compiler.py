"""Optimizers that do not import torch's compiler, which nobody uses here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch.optim import Optimizer

COMPILER = "torch._dynamo"
KEPT_FROM_IT = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
KEPT = "__dynamo_disable"  # where torch keeps, with a method, what it makes of it for its compiler


def import_no_compiler() -> None:
    """Optimizers do not import the compiler; once somebody else has imported it, they are as torch made them.

    torch hides the methods KEPT_FROM_IT of an optimizer from its compiler, and to do so imports all of it at the first
    call of one. That takes longer than everything else that a short training does before its first update.
    """
    for name in KEPT_FROM_IT:
        theirs = getattr(Optimizer, name)
        function = getattr(theirs, "__wrapped__", None)
        if function is not None and not hasattr(function, KEPT):
            setattr(function, KEPT, _until_imported(theirs, function))


def _until_imported(theirs: Callable, function: Callable) -> Callable:
    def plain(*args: Any, **kwargs: Any) -> Any:
        if COMPILER not in sys.modules:
            return function(*args, **kwargs)
        vars(function).pop(KEPT, None)  # so that torch makes its own
        return theirs(*args, **kwargs)

    return plain
