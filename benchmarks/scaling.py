"""How a training step's time and memory grow with prompt length, depth, batch and sentence length.

    python benchmarks/scaling.py --axes layers=6,12 batch --rounds 5 --json FILE
    python benchmarks/scaling.py --read FILE --plot FILE.pdf        # draws saved figures

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

from common import Settings, add_step_options, check_device, make_parser, parse, step_settings, write_json
from step_time import Figures, find_cases, libraries, measure

from preprocess.errors import InputError, command_line
from preprocess.flags import aligned
from preprocess.writing import new_file

BASE = Settings(layers=12, batch=8, steps=2, prompt_length=5)
FORMATS = (".png", ".svg", ".pdf")
AXES = {  # the name of each, its label, the values that are measured by default
    "prompt-length": ("prompt length (rows)", (1, 5, 20, 50)),
    "layers": ("depth (layers)", (4, 8, 12, 24)),
    "batch": ("batch size (sentences)", (2, 4, 8, 16)),
    "length": ("mean sentence length (tokens)", (10, 20, 40, 80)),
}
LABELS = {name.replace("-", "_"): label for name, (label, _) in AXES.items()}  # by the names of settings
STYLES = {  # case: colour of Okabe and Ito, told apart with any colour vision; mark and line of matplotlib
    "fine-tuning": ("#D55E00", "D-"),
    "m-idpg-phm": ("#0072B2", "o-"),
    "m-idpg-phm-cached": ("#56B4E9", "o--"),
    "prompt-tuning": ("#009E73", "s-"),
    "p-tuning-v2": ("#E69F00", "^-"),
    "p-tuning-v2-kv": ("#CC79A7", "v--"),
    "floor": ("#000000", "x:"),
}
# figure of each case, label of its axis, title of the drawing
QUANTITIES = {
    "time": ("median_s", "seconds per step", "Time of a training step"),
    "memory": ("peak_mib", "peak memory (MiB)", "Peak memory of training"),
}


def parse_options() -> argparse.Namespace:
    parser = make_parser(__doc__, rounds=(3, "after one to warm up"))
    add_step_options(parser, BASE)
    axes = ", ".join(f"{name}={','.join(map(str, values))}" for name, (_, values) in AXES.items())
    add = parser.add_argument
    add("--axes", nargs="+", action="extend", metavar="AXIS[=N,N]", help=f"default: {axes}")
    add("--cases", nargs="+", action="extend", metavar="CASE", help=f"default: {' '.join(STYLES)}")
    add("--read", type=Path, metavar="FILE", help="take the figures of --json, measure nothing")
    add("--plot", type=Path, metavar="FILE", help="draw a panel for each axis: .png, .svg or .pdf")
    add("--quantity", choices=QUANTITIES, default="time", help="what --plot shows (default time)")
    args = parse(parser)
    if args.plot and (args.plot.suffix not in FORMATS or find_spec("matplotlib") is None):
        raise InputError(f"--plot {args.plot}: name a file that ends in {', '.join(FORMATS)}; it needs matplotlib")
    return args


def parse_axes(words: list[str]) -> dict[str, list[int]]:
    """Turn ``layers=6,12``, or ``layers`` with its default values, into {setting: its values in rising order}."""
    axes: dict[str, list[int]] = {}
    for word in words:
        name, _, values = word.partition("=")
        if name not in AXES or not all(value.isdecimal() and int(value) for value in values.split(",") if values):
            raise InputError(f"--axes {word} is unknown: give {', '.join(AXES)}, or numbers, such as layers=2,4")
        axes[name.replace("-", "_")] = sorted(set(map(int, values.split(",")) if values else AXES[name][1]))
    return axes


def measure_axes(args: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """Measure every value of each axis, and print an axis when it is done.

    Return what ``--json`` saves, {"base", "rounds", "axes": {axis: [{"value", "cases": figures}, ...]}}, and the cases
    that failed somewhere.
    """
    check_device(args.device)
    base = step_settings(args, BASE)
    cases, axes = find_cases(args.cases or list(STYLES)), parse_axes(args.axes or list(AXES))
    print(f"base: {base}; {base.steps} batches in each of {args.rounds} rounds")
    known: dict[Settings, Figures] = {}  # a point that several axes share is measured once
    measured: dict[str, list[dict[str, Any]]] = {}
    failed: list[str] = []
    for axis, values in axes.items():
        measured[axis] = []
        for value in values:
            change: dict[str, Any] = {axis: value}
            settings = replace(base, **change)
            if settings not in known:
                known[settings], names = measure(cases, settings, args.rounds, f"{axis} {value}, ")
                failed += [name for name in names if name not in failed]
            measured[axis].append({"value": value, "cases": known[settings]})
        print("\n".join(["", *table(axis, measured[axis])]), flush=True)
    print(f"\n{libraries(known[next(iter(known))])}")
    return {"base": asdict(base), "rounds": args.rounds, "axes": measured}, failed


def table(axis: str, points: list[dict[str, Any]]) -> list[str]:
    """Return lines of seconds per step and peak MiB of each case (rows) at each value (columns)."""
    rows = [[LABELS[axis], "", *(str(point["value"]) for point in points)]]
    for head, figure, form in (("s/step", "median_s", ".4f"), ("peak MiB", "peak_mib", ",.0f")):
        for name in points[0]["cases"]:
            values = [point["cases"][name].get(figure) for point in points]
            rows.append([head, name, *("fails" if value is None else format(value, form) for value in values)])
            head = ""
    return aligned(rows, left=(0, 1))


def draw(saved: dict[str, Any], quantity: str, path: Path) -> None:
    """Write the figure of what scaling.py ``saved``, complete or not at all."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure  # without pyplot: no window, no global state; .png is drawn by Agg

    axes, (figure_name, label, title) = saved["axes"], QUANTITIES[quantity]
    columns, rows = min(2, len(axes)), -(-len(axes) // 2)
    # inches: the title needs 8 of width, the legend and the title 1.4 of height
    figure = Figure((max(4.6 * columns, 8.0), 3.3 * rows + 1.4), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for panel, (axis, points) in zip(panels, axes.items()):
        draw_lines(panel, points, figure_name)
        panel.axvline(saved["base"][axis], color="0.85", linewidth=4, zorder=0)
        panel.set(xlabel=LABELS[axis], ylabel=label, xticks=[point["value"] for point in points])
        panel.set_xlim(left=0)
        panel.set_ylim(bottom=0)
        panel.grid(axis="y", color="0.9")
    for panel in panels[len(axes) :]:
        panel.remove()
    bars = "; bars: fastest to slowest round" if quantity == "time" else ""
    figure.suptitle(f"{title}\nbase (grey): {Settings(**saved['base'])}{bars}", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    with rc_context({"svg.fonttype": "none"}), new_file(path) as work:  # letters, not their outlines
        figure.savefig(work, dpi=150)


def draw_lines(panel: Any, points: list[dict[str, Any]], figure: str) -> None:
    """Draw a line through each case's measured values; of seconds also a bar from the lowest to the highest round."""
    for name in points[0]["cases"]:
        colour, style = STYLES.get(name, ("0.5", ".-"))
        cases = {point["value"]: point["cases"][name] for point in points if figure in point["cases"][name]}
        panel.plot(list(cases), [case[figure] for case in cases.values()], style, color=colour, label=name)
        if figure == "median_s":
            for value, case in cases.items():
                panel.vlines(value, min(case["rounds_s"]), max(case["rounds_s"]), color=colour, linewidth=1)


@command_line("error", "nothing is kept")
def main() -> None:
    args = parse_options()
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
