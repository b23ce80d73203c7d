"""Columns of text."""

from typing import List, Sequence


def aligned(rows: Sequence[Sequence[str]], left: int) -> List[str]:
    """Lines with all cells of a column equally wide; the first ``left`` columns flush left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    sides = [str.ljust if column < left else str.rjust for column in range(len(widths))]
    return ["  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths)).rstrip() for row in rows]
