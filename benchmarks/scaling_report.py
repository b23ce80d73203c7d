"""The axes of benchmarks/scaling.py and the table of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Axis:
    """
    Attributes:
        setting: the number that is changed.
        label: what it is, with its unit.
        values: the ones to measure unless others are given.
    """

    setting: str
    label: str
    values: tuple[int, ...]


AXES: dict[str, Axis] = {
    "prompt-length": Axis("prompt_length", "prompt length (rows)", (1, 5, 20, 50)),
    "layers": Axis("layers", "depth (layers)", (4, 8, 12, 24)),
    "batch": Axis("batch", "batch size (sentences)", (2, 4, 8, 16)),
    "length": Axis("length", "mean sentence length (tokens)", (10, 20, 40, 80)),
}
LABELS = {axis.setting: axis.label for axis in AXES.values()}


def table(axis: str, points: list[dict[str, Any]]) -> list[str]:
    """Seconds per step and peak MiB of each case (rows) at each value (columns)."""
    values = "".join(f"{point['value']:10}" for point in points)
    cases = list(points[0]["cases"])
    lines: list[str] = []
    for head, figure, form in (("s/step", "median_s", "10.4f"), ("peak MiB", "peak_mib", "10,.0f")):
        lines.append(f"{LABELS[axis] if not lines else '':30}{values}")
        for name in cases:
            found = [point["cases"][name].get(figure) for point in points]
            cells = "".join(f"{'fails':>10}" if value is None else format(value, form) for value in found)
            lines.append(f"{head if name == cases[0] else '':10}{name:20}{cells}")
    return lines
