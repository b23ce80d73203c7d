"""The plot of ``python -m preprocess stats``: mean sentence lengths, and how they differ in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import InputError
from .writing import new_file

COLOURS = ("#4477aa", "#ee9944")  # told apart by colour-blind readers and in grey
BAR = 0.38
SMALLEST_RANGE = 1.0  # of length differences, in tokens: a hundredth of a token shall not look large


def check_format(path: Path) -> None:
    """Refuses a file name that matplotlib writes no file for; without matplotlib ``save_plot`` says so."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    if path.suffix[1:].lower() not in Figure().canvas.get_supported_filetypes():
        raise InputError(f"--plot {path}: matplotlib writes no such files: name a .png, .pdf or .svg file")


def save_plot(folders: dict[str, dict[str, Any]], path: Path) -> None:
    """Saves two panels for what ``stats.describe_folder`` says of each folder; the suffix decides the format.

    Raises:
        InputError: matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure  # without pyplot: no window, no global state; .png is drawn by Agg
    except ImportError:
        raise InputError("the plot needs matplotlib: pip install matplotlib, or give --no-plot") from None
    figure = Figure(figsize=(max(10.0, 4.0 + 1.6 * len(folders)), 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_lengths(left, folders)
    draw_differences(right, {name: folder for name, folder in folders.items() if folder["pairs"]})
    with new_file(path) as work:
        figure.savefig(work, dpi=150)


def draw_lengths(axes: Any, folders: dict[str, dict[str, Any]]) -> None:
    """A bar for each sentence of the training set, or of the first split where there is none."""
    splits = ["train" if "train" in folder["splits"] else next(iter(folder["splits"])) for folder in folders.values()]
    lengths = [folder["splits"][split]["lengths"] for split, folder in zip(splits, folders.values())]
    means = [[facts["mean"] if facts else None for facts in both] for both in lengths]
    axes.set(title="Mean sentence length, training set", ylabel="tokens per sentence", xlabel="data set")
    draw_bars(axes, means, ("first or only sentence", "second sentence"), "%.1f")
    name_places(axes, [name if split == "train" else f"{name} ({split})" for name, split in zip(folders, splits)])


def draw_differences(axes: Any, folders: dict[str, dict[str, Any]]) -> None:
    """Bars of both sets: the 0.6 that the paper states for MRPC is that of the validation set (0.64 in words)."""
    title, unit = "First less second sentence of pairs", "mean length difference, tokens"
    axes.set(title=title, ylabel=unit, xlabel="data set of pairs")
    if not folders:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "no sentence pairs among these data sets", ha="center", transform=axes.transAxes)
        return
    differences = [[difference(folder, split) for split in ("train", "valid")] for folder in folders.values()]
    draw_bars(axes, differences, ("training set", "validation set"), "%+.2f")
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, -SMALLEST_RANGE), max(high, SMALLEST_RANGE))
    axes.axhline(0, color="black", linewidth=0.8)
    name_places(axes, list(folders))


def difference(folder: dict[str, Any], split: str) -> float | None:
    value = folder["splits"].get(split, {}).get("difference")
    return None if value is None else round(value, 2) + 0  # adding 0 makes -0.0 positive


def draw_bars(axes: Any, values: Sequence[Sequence[float | None]], labels: Sequence[str], number: str) -> None:
    """Bars side by side at each place, one for each value that is there, and what their colours mean."""
    for kind, label in enumerate(labels):
        bars = [
            (place + BAR * (kind - (len(group) - 1) / 2), group[kind])
            for place, group in enumerate(values)
            if kind < len(group) and group[kind] is not None
        ]
        if bars:
            drawn = axes.bar(*zip(*bars), width=BAR, color=COLOURS[kind], label=label)
            axes.bar_label(drawn, fmt=number, fontsize=8, padding=2)
    axes.margins(y=0.3)
    if axes.containers:
        axes.legend(loc="upper right", fontsize=8)


def name_places(axes: Any, names: list[str]) -> None:
    crowded = len(names) > 4 or max(map(len, names)) > 12
    axes.set_xticks(range(len(names)), names, rotation=30 if crowded else 0, ha="right" if crowded else "center")
    axes.set_xlim(-0.7, len(names) - 0.3)
