"""Tests that look at a device, on this one: python benchmarks/gpu/checks.py --device cuda --json FILE

Those of PLACES that are there; tests that need a GPU skip themselves on other machines.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # installed or not

from gpu.looking import parse_look
from step_measure import ROOT, write_json

PLACES = ("tests/device", "tests/cli/test_gpu.py", "tests/backbone/test_padding.py", "tests/models/test_invariance.py")


def outcomes(report: Path) -> dict[str, Any]:
    """Counts, and the first line of what each failing test says, from pytest's XML."""
    found: dict[str, Any] = {"passed": 0, "skipped": 0, "failed": {}}
    for case in ElementTree.parse(report).iter("testcase"):
        wrong = [part for part in case if part.tag in ("failure", "error")]
        if wrong:
            lines = (wrong[0].get("message") or wrong[0].tag).strip().splitlines()
            found["failed"][f"{case.get('classname')}::{case.get('name')}"] = lines[0]
        else:
            found["skipped" if any(part.tag == "skipped" for part in case) else "passed"] += 1
    return found


def checks(places: list[str]) -> dict[str, Any]:
    there = [place for place in places if (ROOT / place).exists()]
    if not there:
        return {"error": "no test of a device is here"}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *there]
        status = subprocess.run(command, cwd=ROOT).returncode
        if not report.exists():
            return {"error": f"pytest ended with exit status {status}: is it installed?"}
        return {"places": there, **outcomes(report)}


if __name__ == "__main__":
    args = parse_look(__doc__)
    write_json(args.json, checks(args.cases or list(PLACES)))
