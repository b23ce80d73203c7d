"""How a training step's time and memory grow with prompt length, depth, batch and sentence length.

    python benchmarks/scaling.py [--json FILE] [--plot FILE.png] [--cases m-idpg-phm fine-tuning ...]
    python benchmarks/scaling.py --axes layers=6,12 batch --rounds 5
    python benchmarks/scaling.py --read FILE --plot FILE.pdf        # the figure of saved figures

One number is changed at a time, the others stay at those of the base: 12 layers, width 256, batches of 8 sentences of
about 40 tokens (drawn; their deviation is a quarter of the mean), prompt length 5. At each point the cases run side by
side as in benchmarks/step_time.py, which says what a step, its seconds, its peak memory and "floor" are; the next point
starts when the last one's processes have ended, so points lie further apart in time than cases do. A point that
several axes share is measured once.

The default takes 10 to 15 minutes on two slow cores (40 GFLOP/s) that have nothing else to do, a quarter of it to start
processes, and up to 6 GiB of memory. Any device and precision of step_time.py will do.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere, installed or not

from scaling_plot import LOOKS, QUANTITIES, check_plot, draw
from scaling_report import AXES, table
from step_cases import Case, chosen
from step_measure import check_device, check_folder, check_names, measure, write_json
from step_report import Figures, libraries
from step_settings import NUMBERS, Settings, add_device, add_numbers, changed, positive

from preprocess.errors import InputError, command_line

BASE = Settings(layers=12, batch=8, steps=2, prompt_length=5)


@dataclass(frozen=True)
class Plan:
    """What to measure: the ``cases`` at ``base``, and along each axis at the values listed for it."""

    base: Settings
    cases: list[Case]
    axes: dict[str, list[int]]

    def settings(self, axis: str, value: int) -> Settings:
        return changed(self.base, **{axis: value})

    def __len__(self) -> int:
        """Points, each once."""
        return len({self.settings(axis, value) for axis, values in self.axes.items() for value in values})


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    axes = ", ".join(f"{name}={','.join(map(str, axis.values))}" for name, axis in AXES.items())
    parser.add_argument("--axes", nargs="+", action="extend", metavar="AXIS[=N,N]", help=f"default: {axes}")
    parser.add_argument("--cases", nargs="+", action="extend", metavar="CASE", help=f"default: {' '.join(LOOKS)}")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="after one to warm up (default 3)")
    add_numbers(parser, BASE)
    add_device(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the figures")
    parser.add_argument("--read", type=Path, metavar="FILE", help="take the figures of --json, measure nothing")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw a panel for each axis: .png, .svg or .pdf")
    parser.add_argument("--quantity", choices=QUANTITIES, default="time", help="what --plot shows (default time)")
    return parser.parse_args(arguments)


def parse_axes(given: list[str]) -> dict[str, list[int]]:
    """``layers=6,12`` or ``layers``, with its default values -> {setting: its values in rising order}.

    Raises:
        InputError: an unknown axis, or values that are no numbers.
    """
    found = {}
    for text in given:
        name, _, values = text.partition("=")
        if name not in AXES:
            raise InputError(f"--axes {text} is unknown: choose from {', '.join(AXES)}")
        try:
            numbers = {int(value) for value in values.split(",")} if values else set(AXES[name].values)
        except ValueError:
            raise InputError(f"--axes {text}: give whole numbers, such as {name}=2,4") from None
        if min(numbers) < 1:
            raise InputError(f"--axes {text}: {min(numbers)} is too small: give 1 or more")
        found[AXES[name].setting] = sorted(numbers)
    return found


def check(args: argparse.Namespace) -> Plan:
    """What to measure.

    Raises:
        InputError: what cannot be measured, drawn or written.
    """
    positive(args, "rounds")
    cases = args.cases or list(LOOKS)
    check_names(cases, list(LOOKS))
    check_device(args.device)
    base = changed(BASE, device=args.device, dtype=args.dtype, **positive(args, *NUMBERS))
    plan = Plan(base, chosen(cases), parse_axes(args.axes or list(AXES)))
    len(plan)  # refuses values that make no model
    check_folder("--json", args.json)
    return plan


def measure_axes(plan: Plan, rounds: int) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """({axis: [{"value", "cases": figures}, ...]}, cases that failed somewhere); prints each axis when it is done."""
    known: dict[Settings, Figures] = {}
    found: dict[str, list[dict[str, Any]]] = {}
    failures: list[str] = []
    for axis, values in plan.axes.items():
        found[axis] = []
        for value in values:
            settings = plan.settings(axis, value)
            if settings not in known:
                label = f"point {len(known) + 1} of {len(plan)}, "
                known[settings], failed = measure(plan.cases, settings, rounds, label)
                failures += [name for name in failed if name not in failures]
            found[axis].append({"value": value, "cases": known[settings]})
        print("\n".join(["", *table(axis, found[axis])]), flush=True)
    return found, failures


def read(path: Path) -> dict[str, Any]:
    """What ``--json`` saved.

    Raises:
        InputError: a file that is none.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        Settings(**found["base"])
        tables = [table(axis, points) for axis, points in found["axes"].items()]
    except OSError as error:
        raise InputError(f"--read {path}: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise InputError(f"--read {path} is no file that --json wrote: give one") from None
    print("\n".join(line for lines in tables for line in [*lines, ""]))
    return found


def run(args: argparse.Namespace) -> list[str]:
    """Measures or reads, saves and draws; the cases that failed."""
    if args.read and args.json:
        raise InputError("--read and --json exclude each other: leave one of them out")
    check_plot(args.plot)
    failed: list[str] = []
    if args.read:
        saved = read(args.read)
    else:
        plan = check(args)
        print(f"base: {plan.base}; {plan.base.steps} batches in each of {args.rounds} rounds")
        axes, failed = measure_axes(plan, args.rounds)
        saved = {"base": asdict(plan.base), "rounds": args.rounds, "axes": axes}
        print(f"\n{libraries(axes[next(iter(axes))][0]['cases'])}")
    if args.json:
        write_json(args.json, saved)
    if args.plot:
        draw(saved, args.quantity, args.plot)
    return failed


@command_line("error", "nothing is kept")
def main() -> None:
    failed = run(parse(sys.argv[1:]))
    if failed:
        sys.exit(f"error: {', '.join(failed)} failed, see above")


if __name__ == "__main__":
    main()
