"""Values that do not belong where they are put, and how they are put there."""

from __future__ import annotations

import math
from random import Random
from typing import Any, Iterator

CANARY = "canary"  # made in the folder of the case by whatever runs code
CODE = (
    f"open('{CANARY}','w')",
    f"[open('{CANARY}','w')]",
    f"(open('{CANARY}','w'), 0.9)",
    f"[(16, 3)] * (1 if open('{CANARY}','w') else 1)",
    f"__import__('pathlib').Path('{CANARY}').touch()",
    f"{{'a': open('{CANARY}','w')}}",
)
# Of other types than any option has, or beyond its sense. No value that another run could really have had.
STRANGE = (None, "text", "", -1, 2**70, 1e300, math.nan, math.inf, [], [[]], {}, {"a": 1}, ["a"], b"bytes", True)


def leaves(tree: Any, path: tuple = ()) -> Iterator[tuple]:
    """Paths of all values in nested dicts and lists that are no such container, or empty ones."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, (list, tuple)) else ()
    found = False
    for key, value in items:
        found = True
        yield from leaves(value, (*path, key))
    if not found and path:
        yield path


def put(tree: Any, path: tuple, value: Any) -> None:
    for key in path[:-1]:
        tree = tree[key]
    if isinstance(tree, (dict, list)):
        tree[path[-1]] = value


def put_somewhere(tree: Any, draw: Random, values: tuple) -> str:
    path, value = draw.choice(list(leaves(tree))), draw.choice(values)
    put(tree, path, value)
    return f"{'.'.join(map(str, path))} = {str(value)[:40]!r}"
