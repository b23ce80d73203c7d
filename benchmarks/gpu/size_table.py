"""One table of several figures of benchmarks/step_time.py --json: precision x batch x length x case.

    python benchmarks/gpu/size_table.py FILE.json [FILE.json ...]

"tokens/s" counts the text, without padding and prompt; "of floor" is the floor's time over the case's (step_time.py).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # installed or not

from step_report import libraries, of_floor, skipped

KEYS = ("dtype", "batch", "length")  # what tells the rows' runs apart
HEAD = (
    f"{'dtype':10}{'batch':>6}{'length':>8}  {'case':24}{'ms/step':>10}{'tokens/s':>11}{'peak MiB':>10}{'of floor':>10}"
)


def rows(run: dict[str, Any]) -> list[str]:
    """The lines of one run."""
    settings, figures = run["settings"], run["cases"]
    lines = []
    for case, found in figures.items():
        line = f"{settings['dtype']:10}{settings['batch']:6}{settings['length']:8}  {case:24}"
        if "error" in found:
            lines.append(f"{line}  fails: {found['error']}")
            continue
        speed = f"{found['median_s'] * 1000:10.2f}{found['tokens_per_s']:11,.0f}"
        lines.append(f"{line}{speed}{found['peak_mib']:10,.0f}{of_floor(figures, case):>10}")
    return [*lines, *skipped(figures)]


def table(runs: list[dict[str, Any]]) -> list[str]:
    """What all runs share, then a block for each run, in the order of precision, batch and length."""
    runs = sorted(runs, key=lambda run: [run["settings"][key] for key in KEYS])
    shared = {name: value for name, value in runs[0]["settings"].items() if name not in KEYS}
    if any(run["settings"][name] != value for run in runs for name, value in shared.items()):
        raise ValueError("the files hold runs that differ in more than precision, batch and length")
    named = [f"{name.replace('_', ' ')} {value}" for name, value in shared.items()]
    lines = [", ".join([*named, f"rounds {runs[0]['rounds']}"]), libraries(runs[0]["cases"]), HEAD]
    for run in runs:
        lines += [*rows(run), ""]
    return lines[:-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.json")
    runs = []
    for file in parser.parse_args().files:
        try:
            figures = json.loads(file.read_text(encoding="utf-8"))
            shared = next(iter(figures.values()))
            runs.append({"settings": shared["settings"], "rounds": shared["rounds"], "cases": figures})
        except (OSError, ValueError, LookupError, TypeError, AttributeError, StopIteration) as error:
            sys.exit(f"error: {file} is no file that step_time.py --json wrote ({error}): give one")
    try:
        print("\n".join(table(runs)))
    except (LookupError, TypeError, ValueError) as error:
        sys.exit(f"error: the files cannot stand in one table ({error}): give those of one benchmarks/gpu.sh")


if __name__ == "__main__":
    main()
