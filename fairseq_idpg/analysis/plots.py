"""Figures 4 and 8 of the paper: pairs of each group of gold scores among the k with the highest cosine."""

from pathlib import Path
from typing import Any

from preprocess.stats_plot import draw_bars
from preprocess.writing import new_file

from ..errors import InputError

PANEL = (4.2, 3.8)  # inches


def new_figure(panels: int) -> Any:
    """An empty figure, wide enough for ``panels`` beside each other."""
    from matplotlib.figure import Figure  # without pyplot: no window, no global state

    return Figure(figsize=(PANEL[0] * panels, PANEL[1]), layout="constrained")


def check_format(path: Path) -> None:
    """Raise InputError for a file name that matplotlib writes no file for."""
    if path.suffix[1:].lower() not in new_figure(1).canvas.get_supported_filetypes():
        raise InputError(f"--out {path}: matplotlib writes no such files: name a .png, .svg or .pdf file")


def save_plot(results: dict[str, Any], path: Path) -> None:
    """Draw what ``cosine.numbers`` gives and write it; the suffix decides the format."""
    figure = bar_figure(results)
    with new_file(path) as work:
        figure.savefig(work, dpi=150)


def bar_figure(results: dict[str, Any]) -> Any:
    """One panel for each k; in each group a bar for each model."""
    models = results["models"]
    names = [model["name"] for model in models]
    tops = list(models[0]["top"])
    figure = new_figure(len(tops))
    for axes, k in zip(figure.subplots(1, len(tops), squeeze=False)[0], tops):
        draw_bars(axes, list(zip(*(model["top"][k] for model in models))), names, "%d")
        axes.set(
            title=f"top {k} of {results['pairs']:,} pairs by cosine", xlabel="gold score", ylabel="number of pairs"
        )
        axes.set_xticks(range(len(results["groups"])), results["groups"])
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.legend(loc="upper left", fontsize=8)  # the highest bars stand on the right
    return figure
