"""benchmarks/gpu.sh on a CPU, at a size for trying it out, and where there is no GPU; the table of several runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from gpu.size_table import table

from tests.folders import ROOT

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


def gpu(*arguments: str, **variables: str | Path) -> subprocess.CompletedProcess:
    own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment = {**own, **{name: str(value) for name, value in variables.items()}}
    command = ["bash", str(ROOT / "benchmarks" / "gpu.sh"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


def test_runs_every_combination_and_leaves_a_table(python, tmp_path):
    done = gpu(
        *("--threads", "1", "--rounds", "1", "--steps", "1"),
        **{"PYTHON": python, "DEVICE": "cpu", "SIZE": "tiny", "CASES": "floor", "OUT": tmp_path / "out"},
        **{"PARTS": "environment sizes"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    parts = ["environment", *(f"bfloat16-batch2-length{length}" for length in (8, 16))]
    names = {f"{part}.{kind}" for part in parts for kind in ("json", "log")}
    made = {*names, "parts.json", "report.json", "report.md", "summary.txt"}
    assert {file.name for file in (tmp_path / "out").iterdir()} == made
    sent = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert list(sent["parts"]) == parts and sent["environment"]["torch"] == torch.__version__
    summary = (tmp_path / "out" / "summary.txt").read_text(encoding="utf-8")
    assert done.stdout.endswith(summary)
    rows = [line.split() for line in summary.splitlines()[3:] if line]
    assert [row[:4] for row in rows] == [["bfloat16", "2", length, "floor"] for length in ("8", "16")]
    saved = json.loads((tmp_path / "out" / "bfloat16-batch2-length16.json").read_text(encoding="utf-8"))
    figures = saved["floor"]
    settings = figures["settings"]
    assert (settings["dtype"], settings["length"], settings["width"]) == ("bfloat16", 16, 32)
    assert figures["tokens"] == 2 * 16
    ours = [f"{figures['median_s'] * 1000:.2f}", f"{figures['tokens_per_s']:,.0f}", f"{figures['peak_mib']:,.0f}"]
    assert rows[1][4:] == [*ours, "100%"]


@no_gpu
def test_refuses_in_one_line_where_torch_has_no_gpu(tmp_path):
    done = gpu(PYTHON=sys.executable, OUT=tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: --device cuda: torch {torch.__version__} ")
    assert (done.stderr.count("\n"), done.stdout) == (1, "")
    assert not (tmp_path / "out").exists()


def test_refuses_before_it_makes_an_environment(tmp_path):
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\nexit 9\n")
    fake.chmod(0o755)
    done = gpu(PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}", OUT=tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.startswith("error: nvidia-smi -L lists no NVIDIA GPU here")
    assert (done.stderr.count("\n"), done.stdout) == (1, "")


def test_refuses_an_interpreter_without_the_libraries(tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    done = gpu(PYTHON=bare, OUT=tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr == f"error: PYTHON={bare} has no torch: install it there, or leave PYTHON out to make .venv\n"


def run(dtype: str, batch: int, length: int, seconds: float, **settings) -> dict:
    cases = {
        "m-idpg-phm": {"median_s": seconds, "tokens_per_s": 1000.0, "peak_mib": 2048.0, "skipped": 2},
        "fine-tuning": {"error": "OutOfMemoryError: CUDA out of memory"},
        "floor": {"median_s": 0.01, "tokens_per_s": 2000.0, "peak_mib": 1024.0, "hardware": "NVIDIA X"},
    }
    own = {"dtype": dtype, "batch": batch, "length": length, "layers": 24, **settings}
    return {"settings": own, "rounds": 5, "cases": cases}


def test_table_is_ordered_by_number_and_states_failures():
    lines = table([run("float16", 32, 128, 0.02), run("float16", 32, 32, 0.04), run("bfloat16", 16, 512, 0.01)])
    assert lines[0] == "layers 24, rounds 5"
    assert lines[1] == "NVIDIA X"
    found = [line.split() for line in lines if "floor" in line and "of floor" not in line]
    assert [row[:3] for row in found] == [["bfloat16", "16", "512"], ["float16", "32", "32"], ["float16", "32", "128"]]
    ours = [line.split() for line in lines if " m-idpg-phm" in line]
    assert ours[1] == ["float16", "32", "32", "m-idpg-phm", "40.00", "1,000", "2,048", "25%"]
    assert sum("fails: OutOfMemoryError" in line for line in lines) == 3
    assert lines.count("m-idpg-phm: 2 steps overflowed and were skipped") == 3


def test_runs_that_differ_otherwise_do_not_stand_in_one_table():
    with pytest.raises(ValueError, match="differ in more than precision, batch and length"):
        table([run("float16", 16, 32, 0.01), run("float16", 16, 128, 0.01, layers=12)])
