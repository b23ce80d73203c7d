"""Values that Python callers give, which no parser of options has looked at."""

from numbers import Integral
from typing import Any

import numpy as np

from preprocess.flags import flag_name

from ..errors import InputError


def spelled(name: str, checkpoint: str) -> str:
    """An argument of ``load`` or ``predict`` as whoever named the checkpoint types it, for errors.

    Args:
        checkpoint: what errors call it: ``--path FILE`` at a command line, where ``vocab`` is typed ``--vocab``.
    """
    return flag_name(name) if checkpoint.startswith("--") else name


def whole_number(name: str, value: Any) -> int:
    """An argument that counts something, of any type of whole numbers.

    Raises:
        InputError: it is none, or less than 1.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name} {value!r:.60} is no size: give a whole number, 1 or more")
    return int(value)


def check_switches(**switches: Any) -> None:
    """Refuses what Python would take for true, such as "no".

    Args:
        switches: arguments that are True or False, by their names.

    Raises:
        InputError: one is neither.
    """
    for name, value in switches.items():
        if not isinstance(value, (bool, np.bool_)):
            raise InputError(f"{name} {value!r:.60} is neither True nor False: give one of them")
