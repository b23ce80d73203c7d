"""Columns of text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .errors import escaped


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Lines with all cells of a column equally wide: columns of the numbers ``left`` flush left, the others right."""
    rows = [[escaped(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    sides = [str.ljust if column in left else str.rjust for column in range(len(widths))]
    return ["  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths)).rstrip() for row in rows]
