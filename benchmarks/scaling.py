"""How a training step's time and memory grow with prompt length, depth, batch and sentence length.

    python benchmarks/scaling.py --axes layers=6,12 batch --rounds 5 --plot FILE.pdf

One number is changed at a time, the others stay at BASE's. At each point the cases run side by side as in
benchmarks/step_time.py, which says what a step, its seconds, its peak memory and "floor" are; points lie further apart
in time than cases do. The default takes 10 to 15 minutes on two slow cores (40 GFLOP/s) that have nothing else to do,
and up to 6 GiB of memory.
"""

import sys
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from common import Settings, add_step_options, check_device, make_parser, parse, step_settings, write_json
from step_time import Figures, find_cases, libraries, measure

from preprocess.drawing import Panel, Point, Series, check_image, draw, save
from preprocess.errors import InputError, command_line
from preprocess.flags import aligned

BASE = Settings(layers=12, batch=8, steps=2, prompt_length=5)
AXES = {  # the name of each, its label, the values that are measured by default
    "prompt-length": ("prompt length (rows)", (1, 5, 20, 50)),
    "layers": ("depth (layers)", (4, 8, 12, 24)),
    "batch": ("batch size (sentences)", (2, 4, 8, 16)),
    "length": ("sentence length (tokens)", (10, 20, 40, 80)),
}
LABELS = {name.replace("-", "_"): label for name, (label, _) in AXES.items()}  # by the names of settings
CASES = "fine-tuning m-idpg-phm m-idpg-phm-cached prompt-tuning p-tuning-v2 p-tuning-v2-kv floor".split()
QUANTITIES = {"median_s": ("s/step", ".4f"), "peak_mib": ("peak MiB", ",.0f")}  # figure: name, form
Points = list[dict[str, Any]]  # of an axis: {"value", "cases": figures}


def parse_axes(words: list[str]) -> dict[str, list[int]]:
    """Turn ``layers=6,12``, or ``layers`` with its default values, into {setting: its values in rising order}."""
    axes: dict[str, list[int]] = {}
    for word in words:
        name, _, values = word.partition("=")
        if name not in AXES or not all(value.isdecimal() and int(value) for value in values.split(",") if values):
            raise InputError(f"--axes {word} is unknown: give {', '.join(AXES)}, or numbers, such as layers=2,4")
        axes[name.replace("-", "_")] = sorted(set(map(int, values.split(",")) if values else AXES[name][1]))
    return axes


def table(axis: str, points: Points) -> list[str]:
    """Return lines of seconds per step and peak MiB of each case (rows) at each value (columns)."""
    rows = [[LABELS[axis], "", *(str(point["value"]) for point in points)]]
    for figure, (quantity, form) in QUANTITIES.items():
        for name in points[0]["cases"]:
            values = [point["cases"][name].get(figure) for point in points]
            rows.append([quantity, name, *("fails" if value is None else format(value, form) for value in values)])
    return aligned(rows, left=(0, 1))


def panels_of(axes: dict[str, Points]) -> list[Panel]:
    """Return a row of panels for each quantity, with a panel for each axis."""
    panels = []
    for (quantity, (label, _)), (axis, points) in product(QUANTITIES.items(), axes.items()):
        series = []
        for style, name in enumerate(points[0]["cases"]):
            cases = [(point["value"], point["cases"][name]) for point in points]
            known = [Point(value, case[quantity]) for value, case in cases if quantity in case]
            series.append(Series(name, known, style, dashed=name == "floor"))
        panels.append(Panel("", LABELS[axis], label, series, whole=True, zero=True))
    return panels


@command_line("error", "nothing is kept")
def main() -> None:
    parser = make_parser(__doc__, rounds=(3, "after one to warm up"))
    add_step_options(parser, BASE)
    usual = ", ".join(f"{name}={','.join(map(str, values))}" for name, (_, values) in AXES.items())
    add = parser.add_argument
    add("--axes", nargs="+", action="extend", metavar="AXIS[=N,N]", help=f"default: {usual}")
    add("--cases", nargs="+", action="extend", metavar="CASE", help=f"default: {' '.join(CASES)}")
    add("--plot", type=Path, metavar="FILE", help="draw time and memory along each axis: .png, .svg or .pdf")
    args = parse(parser)
    if args.plot:
        check_image(args.plot, "--plot")
    check_device(args.device)
    base = step_settings(args, BASE)
    cases, axes = find_cases(args.cases or CASES), parse_axes(args.axes or list(AXES))
    print(f"base: {base}; {base.steps} batches in each of {args.rounds} rounds")
    known: dict[Settings, Figures] = {}  # a point that several axes share is measured once
    measured: dict[str, Points] = {}
    failed: list[str] = []
    for axis, values in axes.items():
        measured[axis] = []
        for value in values:
            change: dict[str, Any] = {axis: value}
            settings = replace(base, **change)
            if settings not in known:
                known[settings], names = measure(cases, settings, args.rounds)
                failed += [name for name in names if name not in failed]
            measured[axis].append({"value": value, "cases": known[settings]})
        print("\n".join(["", *table(axis, measured[axis])]), flush=True)
    print(f"\n{libraries(known[next(iter(known))])}")
    write_json(args.json, {"base": asdict(base), "rounds": args.rounds, "axes": measured})
    if args.plot:
        save(partial(draw, panels_of(measured)), args.plot)
    if failed:
        sys.exit(f"error: {', '.join(failed)} failed, see above")


if __name__ == "__main__":
    main()
