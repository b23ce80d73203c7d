"""Threads that wait must not spin: OpenMP is told so, where it is not too late and nobody has said otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.folders import ROOT

TOLD = "import os; print(os.environ.get('OMP_WAIT_POLICY'))"


@pytest.mark.parametrize(
    ("imports", "given", "expected"),
    [
        ("import fairseq_idpg", {}, "PASSIVE"),
        ("import fairseq_idpg", {"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE"),
        ("import torch, fairseq_idpg", {}, "None"),
    ],
)
def test_what_openmp_is_told(imports, given, expected):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    command = [sys.executable, "-c", f"{imports}; {TOLD}"]
    found = subprocess.run(command, cwd=ROOT, env={**environment, **given}, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == expected
