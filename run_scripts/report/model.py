"""What a renderer is given: a table of texts."""

from __future__ import annotations

from dataclasses import dataclass

MISSING = "missing"
NOTHING = "-"  # where there cannot be a value


@dataclass(frozen=True)
class Table:
    """Lines of cells in groups that stay together, and notes that belong below them.

    Attributes:
        names: how many of the first columns hold names rather than numbers.
    """

    title: str
    names: int
    header: list[str]
    groups: list[list[list[str]]]
    notes: list[str]

    def __post_init__(self) -> None:
        widths = {len(line) for line in self.lines}
        if widths - {len(self.header)}:
            raise ValueError(f"lines of {widths} cells below a header of {len(self.header)}")

    @property
    def lines(self) -> list[list[str]]:
        return [line for group in self.groups for line in group]
