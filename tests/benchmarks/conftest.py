"""The scripts of benchmarks/ import each other by name."""

import sys

from tests.folders import ROOT

sys.path.append(str(ROOT / "benchmarks"))
