"""The campaign and the kill loops in short; the package says how to run the long ones."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.folders import ROOT

from .values import CANARY

CASES, KILLS, SEED = 200, 5, 1


def robustness(*options: object) -> str:
    """What the command prints: the whole table where something is bad."""
    command = [sys.executable, "-m", "tests.robustness", *map(str, options), "--seed", str(SEED)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_no_damage_does_harm():
    assert re.search(rf"^all +{CASES} ", robustness("--cases", CASES), re.MULTILINE)
    assert not (ROOT / CANARY).exists()  # nor is code run by what judges


def test_killed_runs_end_as_others_do():
    printed = robustness("--kills", KILLS)
    assert f"fairseq-train: {KILLS} kills" in printed and f"encode: {KILLS} kills" in printed
