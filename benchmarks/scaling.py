"""How a training step's time and memory grow with prompt length, depth, batch and sentence length.

    python benchmarks/scaling.py [--json FILE] [--plot FILE.png] [--cases m-idpg-phm fine-tuning ...]
    python benchmarks/scaling.py --axes layers=6,12 batch --rounds 5
    python benchmarks/scaling.py --read FILE --plot FILE.pdf        # the figure of saved figures

One number is changed at a time, the others stay at BASE's. At each point the cases run side by side as in
benchmarks/step_time.py, which says what a step, its seconds, its peak memory and "floor" are; points lie further apart
in time than cases do. The default takes 10 to 15 minutes on two slow cores (40 GFLOP/s) that have nothing else to do,
and up to 6 GiB of memory.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from settings import Settings, check_device, parsed, step_parser, step_settings, write_json
from step_cases import chosen
from step_time import Figures, libraries, measure

from preprocess.errors import InputError, command_line
from preprocess.writing import new_file

BASE = Settings(layers=12, batch=8, steps=2, prompt_length=5)
FORMATS = (".png", ".svg", ".pdf")
PANEL = (4.6, 3.3)  # inches
LEGEND = 1.4  # inches, with the title
NARROWEST = 8.0  # inches that the title takes
AXES = {  # what is and the values to measure unless others are given
    "prompt-length": (1, 5, 20, 50),
    "layers": (4, 8, 12, 24),
    "batch": (2, 4, 8, 16),
    "length": (10, 20, 40, 80),
}
LABELS = {
    "prompt_length": "prompt length (rows)",
    "layers": "depth (layers)",
    "batch": "batch size (sentences)",
    "length": "mean sentence length (tokens)",
}
# case: label, colour of Okabe and Ito, told apart with any colour vision, mark and line
LOOKS = {
    "fine-tuning": ("fine-tuning (all weights)", "#D55E00", "D", "-"),
    "m-idpg-phm": ("M-IDPG-PHM", "#0072B2", "o", "-"),
    "m-idpg-phm-cached": ("M-IDPG-PHM, M(x) cached", "#56B4E9", "o", "--"),
    "prompt-tuning": ("prompt tuning", "#009E73", "s", "-"),
    "p-tuning-v2": ("P-tuning v2, rows added", "#E69F00", "^", "-"),
    "p-tuning-v2-kv": ("P-tuning v2, keys and values", "#CC79A7", "v", "--"),
    "floor": ("floor: frozen RoBERTa, gradient to its input", "#000000", "x", ":"),
}
# figure of each case, label of its axis, title of the drawing
QUANTITIES = {
    "time": ("median_s", "seconds per step", "Time of a training step"),
    "memory": ("peak_mib", "peak memory (MiB)", "Peak memory of training"),
}


def parse() -> argparse.Namespace:
    parser = step_parser(__doc__, BASE, rounds=3)
    axes = ", ".join(f"{name}={','.join(map(str, values))}" for name, values in AXES.items())
    parser.add_argument("--axes", nargs="+", action="extend", metavar="AXIS[=N,N]", help=f"default: {axes}")
    parser.add_argument("--cases", nargs="+", action="extend", metavar="CASE", help=f"default: {' '.join(LOOKS)}")
    parser.add_argument("--read", type=Path, metavar="FILE", help="take the figures of --json, measure nothing")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw a panel for each axis: .png, .svg or .pdf")
    parser.add_argument("--quantity", choices=QUANTITIES, default="time", help="what --plot shows (default time)")
    args = parsed(parser)
    if args.plot and (args.plot.suffix not in FORMATS or find_spec("matplotlib") is None):
        raise InputError(f"--plot {args.plot}: name a file that ends in {', '.join(FORMATS)}; it needs matplotlib")
    return args


def parse_axes(given: list[str]) -> dict[str, list[Any]]:
    """Turn ``layers=6,12``, or ``layers`` with its default values, into {setting: its values in rising order}."""
    found: dict[str, list[Any]] = {}
    for text in given:
        name, _, values = text.partition("=")
        if name not in AXES or not all(value.isdecimal() and int(value) for value in values.split(",") if values):
            raise InputError(f"--axes {text} is unknown: give {', '.join(AXES)}, or numbers, such as layers=2,4")
        numbers = map(int, values.split(",")) if values else AXES[name]
        found[name.replace("-", "_")] = sorted(set(numbers))
    return found


def measure_axes(args: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """Measure the cases at every value of each axis, and print an axis when it is done.

    Return what ``--json`` saves, {"base", "rounds", "axes": {axis: [{"value", "cases": figures}, ...]}}, and the cases
    that failed somewhere.
    """
    check_device(args.device)
    base = step_settings(args, BASE)
    cases, axes = chosen(args.cases or list(LOOKS)), parse_axes(args.axes or list(AXES))
    points = {axis: {value: replace(base, **{axis: value}) for value in values} for axis, values in axes.items()}
    count = len({settings for values in points.values() for settings in values.values()})
    print(f"base: {base}; {base.steps} batches in each of {args.rounds} rounds")

    known: dict[Settings, Figures] = {}  # a point that several axes share is measured once
    found: dict[str, list[dict[str, Any]]] = {}
    failures: list[str] = []
    for axis, values in points.items():
        for settings in values.values():
            if settings not in known:
                label = f"point {len(known) + 1} of {count}, "
                known[settings], failed = measure(cases, settings, args.rounds, label)
                failures += [name for name in failed if name not in failures]
        found[axis] = [{"value": value, "cases": known[settings]} for value, settings in values.items()]
        print("\n".join(["", *table(axis, found[axis])]), flush=True)
    print(f"\n{libraries(known[next(iter(known))])}")
    return {"base": asdict(base), "rounds": args.rounds, "axes": found}, failures


def table(axis: str, points: list[dict[str, Any]]) -> list[str]:
    """Return lines of seconds per step and peak MiB of each case (rows) at each value (columns)."""
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


def draw(saved: dict[str, Any], quantity: str, path: Path) -> None:
    """Write the figure of what scaling.py ``saved``, complete or not at all."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure  # without pyplot: no window, no global state; .png is drawn by Agg
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    axes, (figure_name, label, title) = saved["axes"], QUANTITIES[quantity]
    columns = min(2, len(axes))
    rows = -(-len(axes) // columns)
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    figure = Figure((max(PANEL[0] * columns, NARROWEST), PANEL[1] * rows + LEGEND), layout=layout)
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for panel, (axis, points) in zip(panels, axes.items()):
        draw_panel(panel, points, figure_name)
        panel.axvline(saved["base"][axis], color="0.85", linewidth=4, zorder=0)
        panel.set(xlabel=LABELS[axis], ylabel=label, xticks=[point["value"] for point in points])
        panel.set_xlim(left=0)
        panel.set_ylim(bottom=0)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color="0.9")
        panel.set_axisbelow(True)
    for panel in panels[len(axes) :]:
        panel.remove()
    bars = "; bars: fastest to slowest round" if quantity == "time" else ""
    figure.suptitle(f"{title}\nbase (grey): {Settings(**saved['base'])}{bars}", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    with rc_context({"svg.fonttype": "none"}), new_file(path) as work:  # letters, not their outlines
        figure.savefig(work, dpi=150)


def draw_panel(panel: Any, points: list[dict[str, Any]], figure: str) -> None:
    """Draw a line through each case's measured values; of seconds also a bar from the lowest to the highest round."""
    for case in points[0]["cases"]:
        label, colour, marker, line = LOOKS.get(case, (case, "0.5", ".", "-"))
        found = {point["value"]: point["cases"][case] for point in points if figure in point["cases"].get(case, {})}
        if not found:
            continue
        heights = [figures[figure] for figures in found.values()]
        style = {"color": colour, "marker": marker, "linestyle": line, "markersize": 5, "linewidth": 1.5}
        panel.plot(list(found), heights, label=label, **style)
        if figure == "median_s":
            rounds = [figures["rounds_s"] for figures in found.values()]
            panel.vlines(list(found), list(map(min, rounds)), list(map(max, rounds)), color=colour, linewidth=1)


@command_line("error", "nothing is kept")
def main() -> None:
    args = parse()
    failed: list[str] = []
    if args.read:
        saved = json.loads(args.read.read_text(encoding="utf-8"))
        print("\n".join(line for axis, points in saved["axes"].items() for line in [*table(axis, points), ""]))
    else:
        saved, failed = measure_axes(args)
    write_json(args.json, saved)
    if args.plot:
        draw(saved, args.quantity, args.plot)
    if failed:
        sys.exit(f"error: {', '.join(failed)} failed, see above")


if __name__ == "__main__":
    main()
