"""The command line: ``python -m tests.robustness --cases 2000 --seed 1``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import tests.robustness

from .campaign import Case, draw_cases, outcomes
from .kills import kill_loops
from .report import described, table
from .targets import TARGETS

HERE = Path(__file__).parents[2]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "python -m tests.robustness",
        description=tests.robustness.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("--cases", type=int, default=300, metavar="N", help="default: 300")
    add("--seed", type=int, default=1, metavar="S", help="default: 1")
    add("--targets", nargs="+", metavar="TARGET", help="their names or beginnings (default: all)")
    add("--only", nargs="+", metavar="CASE", help="these cases alone")
    add("--all", action="store_true", help="describe every case, not only bad ones")
    add("--kills", type=int, default=0, metavar="N", help="instead: kill each of the commands that save so many times")
    add("--jobs", type=int, default=2, metavar="N", help="commands at a time (default: 2)")
    add("--code", type=Path, default=HERE, metavar="DIR", help="checkout to run (default: this one)")
    add("--keep", type=Path, metavar="DIR", help="leave the files of each case there, and show what it prints")
    return made


def main() -> int:
    """Status 1 if there is a bad case."""
    args = parser().parse_args()
    if args.kills:
        return kill(args)
    chosen = [name for name in TARGETS if name.startswith(tuple(args.targets or [""]))]
    cases = [Case.named(name, args.seed) for name in args.only or ()] or draw_cases(args.cases, args.seed, chosen)
    start, found = time.monotonic(), []
    for outcome in outcomes(cases, args.code.resolve(), args.jobs, args.keep):
        found.append(outcome)
        if outcome.bad or args.all:
            print(described(outcome), flush=True)
    print(f"\n{table(found)}\nseed {args.seed}, {time.monotonic() - start:.0f} s, {args.code}")
    return int(any(outcome.bad for outcome in found))


def kill(args: argparse.Namespace) -> int:
    """Status 1 if a killed run left anything else than an uninterrupted one."""
    found = list(kill_loops(args.code.resolve(), args.kills, args.seed))
    for name in dict.fromkeys(killed.name for killed in found):
        runs = [killed for killed in found if killed.name == name]
        same = sum(not killed.differs for killed in runs)
        print(f"{name}: {sum(run.kills for run in runs)} kills, {same} of {len(runs)} runs end as uninterrupted ones")
        print("".join(f"    after {run.kills} kills: {run.differs}\n" for run in runs if run.differs), end="")
    return int(any(killed.differs for killed in found))


if __name__ == "__main__":
    sys.exit(main())
