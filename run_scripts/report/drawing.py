"""Charts as matplotlib figures."""

from __future__ import annotations

import textwrap
from typing import Any, Callable

from matplotlib.figure import Figure  # without pyplot: no window, no global state; .png is drawn by Agg

from .chart import Chart, Panel, Series

# Okabe and Ito's colours, told apart by colour-blind readers; markers tell the rows apart in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h")  # with 7 colours: 77 styles
UNLABELLED = "_"  # matplotlib leaves such labels out of legends
BARS = 0.8  # of the room between two groups
CAPTION_WIDTH = 150  # characters for a panel


def draw(chart: Chart) -> Figure:
    """Panels side by side, each with its legend below, and the notes as a caption."""
    count = len(chart.panels)
    figure = Figure(figsize=(8.5 * count, 7.0), layout="constrained")
    figure.suptitle(chart.table.title)
    for axes, panel in zip(figure.subplots(1, count, squeeze=False)[0], chart.panels):
        axes.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel)
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
        PAINTERS[panel.kind](axes, panel)
        if panel.series:
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3, fontsize=8, handlelength=4)
        else:
            axes.text(0.5, 0.5, "no such runs", ha="center", transform=axes.transAxes)
    lines = [line for note in chart.table.notes for line in textwrap.wrap(note, CAPTION_WIDTH * count)]
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=7)
    return figure


def paint_lines(axes: Any, panel: Panel) -> None:
    for series in panel.series:
        x, y = zip(*series.points)
        line = "" if len(x) == 1 else "--" if series.dashed else "-"
        axes.plot(x, y, label=series.label or UNLABELLED, linestyle=line, **_style(series))
    if panel.log:
        axes.set_xscale("log")
    if panel.whole:
        axes.set_xticks(sorted({x for series in panel.series for x, _ in series.points}))


def _style(series: Series) -> dict[str, Any]:
    """The paper's hollow markers are larger, so that both are seen where they fall together."""
    colour = COLOURS[series.style % len(COLOURS)]
    face, size = ("none", 12) if series.of_paper else (colour, 7)
    marker = MARKERS[series.style % len(MARKERS)]
    return {"color": colour, "marker": marker, "markerfacecolor": face, "markersize": size}


def paint_bars(axes: Any, panel: Panel) -> None:
    """A bar of each series in each group; the axis starts near the lowest, as scores differ little."""
    width = BARS / max(1, len(panel.series))
    for number, series in enumerate(panel.series):
        places = [panel.groups.index(x) + width * (number - (len(panel.series) - 1) / 2) for x, _ in series.points]
        heights = [y for _, y in series.points]
        colour = COLOURS[series.style % len(COLOURS)]
        face = {"color": "white", "edgecolor": colour, "hatch": "///"} if series.of_paper else {"color": colour}
        drawn = axes.bar(places, heights, width=width * 0.95, label=series.label or UNLABELLED, **face)
        axes.bar_label(drawn, fmt="%.1f", fontsize=7, padding=2)
    heights = [y for series in panel.series for _, y in series.points]
    margin = max(1.0, 0.2 * (max(heights) - min(heights)))
    axes.set_ylim(min(heights) - margin, max(heights) + margin)
    axes.set_xticks(range(len(panel.groups)), panel.groups)


PAINTERS: dict[str, Callable[[Any, Panel], None]] = {"lines": paint_lines, "bars": paint_bars}
