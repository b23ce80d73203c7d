"""The figure of benchmarks/scaling.py: a panel for each axis, a line for each case."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scaling_report import LABELS
from step_measure import check_folder
from step_settings import Settings

from preprocess.errors import InputError
from preprocess.writing import new_file

FORMATS = (".png", ".svg", ".pdf")
PANEL = (4.6, 3.3)  # inches
LEGEND = 1.4  # inches, with the title
NARROWEST = 8.0  # inches that the title takes


@dataclass(frozen=True)
class Look:
    """How a case is drawn; colours of Okabe and Ito, told apart with any colour vision, and by marks alone."""

    label: str
    colour: str
    marker: str
    line: str = "-"


LOOKS: dict[str, Look] = {
    "fine-tuning": Look("fine-tuning (all weights)", "#D55E00", "D"),
    "m-idpg-phm": Look("M-IDPG-PHM", "#0072B2", "o"),
    "m-idpg-phm-cached": Look("M-IDPG-PHM, M(x) cached", "#56B4E9", "o", "--"),
    "prompt-tuning": Look("prompt tuning", "#009E73", "s"),
    "p-tuning-v2": Look("P-tuning v2, rows added", "#E69F00", "^"),
    "p-tuning-v2-kv": Look("P-tuning v2, keys and values", "#CC79A7", "v", "--"),
    "floor": Look("floor: frozen RoBERTa, gradient to its input", "#000000", "x", ":"),
}


@dataclass(frozen=True)
class Quantity:
    """A figure of each case: its name, the label of its axis, the title of the drawing, the figure of each round."""

    figure: str
    label: str
    title: str
    rounds: str | None = None


QUANTITIES: dict[str, Quantity] = {
    "time": Quantity("median_s", "seconds per step", "Time of a training step", "rounds_s"),
    "memory": Quantity("peak_mib", "peak memory (MiB)", "Peak memory of training"),
}


def check_plot(path: Path | None) -> None:
    """Raises InputError for a drawing that could not be made or written."""
    if path is None:
        return
    if path.suffix not in FORMATS:
        raise InputError(f"--plot {path}: name a file that ends in {', '.join(FORMATS)}")
    check_folder("--plot", path)
    if find_spec("matplotlib") is None:
        raise InputError("--plot needs matplotlib: pip install matplotlib, or leave it out")


def draw(saved: dict[str, Any], quantity: str, path: Path) -> None:
    """Writes the figure of what scaling.py ``saved``, complete or not at all."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure  # without pyplot: no window, no global state; .png is drawn by Agg
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    shown, axes = QUANTITIES[quantity], saved["axes"]
    columns = min(2, len(axes))
    rows = -(-len(axes) // columns)
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    figure = Figure((max(PANEL[0] * columns, NARROWEST), PANEL[1] * rows + LEGEND), layout=layout)
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for panel, (axis, points) in zip(panels, axes.items()):
        draw_panel(panel, axis, points, shown, saved["base"][axis])
    for panel in panels[len(axes) :]:
        panel.remove()
    bars = "; bars: fastest to slowest round" if shown.rounds else ""
    figure.suptitle(f"{shown.title}\nbase (grey): {Settings(**saved['base'])}{bars}", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    with rc_context({"svg.fonttype": "none"}), new_file(path) as work:  # letters, not their outlines
        figure.savefig(work, dpi=150)


def draw_panel(panel: Any, axis: str, points: list[dict[str, Any]], shown: Quantity, base: int) -> None:
    """One axis: lines through the measured values, with a bar from the lowest to the highest round."""
    panel.axvline(base, color="0.85", linewidth=4, zorder=0)
    for case, look in LOOKS.items():
        measured = [
            (point["value"], point["cases"][case]) for point in points if shown.figure in point["cases"].get(case, {})
        ]
        if not measured:
            continue
        xs = [value for value, _ in measured]
        ys = [found[shown.figure] for _, found in measured]
        style = {"color": look.colour, "marker": look.marker, "linestyle": look.line, "markersize": 5, "linewidth": 1.5}
        panel.plot(xs, ys, label=look.label, **style)
        if shown.rounds:
            rounds = [found[shown.rounds] for _, found in measured]
            panel.vlines(xs, [min(r) for r in rounds], [max(r) for r in rounds], color=look.colour, linewidth=1)
    panel.set_xlabel(LABELS[axis])
    panel.set_ylabel(shown.label)
    panel.set_xticks([point["value"] for point in points])
    panel.set_xlim(left=0)
    panel.set_ylim(bottom=0)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", color="0.9")
    panel.set_axisbelow(True)
