"""The scripts of benchmarks/ import each other by name."""

import subprocess
import sys

import pytest

from tests.folders import ROOT

SCRIPTS = ROOT / "benchmarks"
sys.path.append(str(SCRIPTS))


@pytest.fixture(scope="session")
def run_script(python):
    """Runs a script of benchmarks/ with its arguments."""

    def run(script: str, *arguments: object) -> subprocess.CompletedProcess:
        command = [str(python), str(SCRIPTS / script), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=600)

    return run
