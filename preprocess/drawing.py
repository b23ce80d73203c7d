"""What all figures share: a paper's widths and type size, colours for any vision, bars side by side, whole files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import InputError
from .writing import new_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers tell apart; markers and their lightness distinguish them in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h")  # with 7 colours: 77 styles
IMAGES = (".png", ".svg", ".pdf")
ONE_COLUMN, TWO_COLUMNS, PANEL_HEIGHT = 3.3, 6.8, 2.2  # inches, of a paper's page
GROUP = 0.8  # share of the room between two groups of bars
STYLE: dict[Any, Any] = {
    **{"font.size": 7, "axes.titlesize": 7, "axes.linewidth": 0.5, "lines.linewidth": 0.9, "lines.markersize": 3.5},
    **{"axes.grid": True, "axes.axisbelow": True, "grid.alpha": 0.3, "grid.linewidth": 0.4, "legend.frameon": False},
    **{"legend.handlelength": 1.6, "legend.columnspacing": 1, "legend.fontsize": 6.5},
    **{"axes.spines.top": False, "axes.spines.right": False, "figure.constrained_layout.use": True},
    # text stays text, which is small and can be searched; the same figure gives the same bytes
    **{"svg.fonttype": "none", "svg.hashsalt": "fairseq_idpg", "pdf.fonttype": 42},
}


def check_image(path: Path, option: str) -> None:
    """Raise InputError, before the work, where matplotlib is not there or writes no such files."""
    known = {}
    if find_spec("matplotlib") is not None:
        from matplotlib.backend_bases import FigureCanvasBase

        known = FigureCanvasBase.filetypes
    if path.suffix[1:].lower() not in known:
        remedy = f"name a file that ends in {', '.join(IMAGES)}" if known else "pip install matplotlib, or leave it out"
        raise InputError(f"{option} {path}: {remedy}")


def save(draw: Callable[[], Figure], path: Path) -> None:
    """Write the figure that ``draw`` returns into a .png, .svg or .pdf file, whole or not at all."""
    import matplotlib

    with matplotlib.rc_context(STYLE), new_file(path) as work:
        draw().savefig(work, dpi=300, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def draw_bars(axes: Any, values: Sequence[Sequence[float | None]], names: Sequence[str], number: str) -> list[Any]:
    """Draw a group of bars for each name, side by side, with their values; return the bars of each colour."""
    width, drawn = GROUP / max(map(len, values)), []
    for kind in range(max(map(len, values))):
        found = [(place, group) for place, group in enumerate(values) if kind < len(group) and group[kind] is not None]
        places = [place + width * (kind - (len(group) - 1) / 2) for place, group in found]
        look = {"color": COLOURS[kind], "hatch": "///" * (kind % 2), "edgecolor": "white", "linewidth": 0}
        drawn.append(axes.bar(places, [group[kind] for _, group in found], width=0.95 * width, **look))
        axes.bar_label(drawn[-1], fmt=number, fontsize=5, padding=1)
    crowded = sum(map(len, names)) > 40
    axes.set_xticks(range(len(names)), names, rotation=30 * crowded, ha="right" if crowded else "center")
    axes.set_xlim(-0.7, len(names) - 0.3)
    axes.grid(axis="x", visible=False)
    axes.margins(y=0.15)
    return drawn
