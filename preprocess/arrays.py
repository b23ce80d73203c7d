"""Arrays in .npy files, mapped into memory."""

from __future__ import annotations

from pathlib import Path
from tokenize import TokenError

import numpy as np

# What numpy raises over a damaged .npy file: its head is parsed as Python, its shape makes a map of the rest.
UNREADABLE = (OSError, EOFError, ValueError, TypeError, SyntaxError, TokenError, OverflowError, MemoryError)


def open_array(path: Path | str, mode: str = "r") -> np.memmap:
    """The array of a file; unlike ``np.load`` it takes no archive for one, and nothing that is pickled.

    Raises:
        one of UNREADABLE.
    """
    return np.lib.format.open_memmap(path, mode=mode)
