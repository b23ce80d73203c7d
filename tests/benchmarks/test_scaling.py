"""benchmarks/scaling.py: what it measures at which point, its tables and its figure."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from scaling_plot import LOOKS, draw
from scaling_report import AXES
from step_settings import Settings

TINY = ["--layers", "1", "--batch", "2", "--width", "32", "--ffn", "64", "--rounds", "1", "--steps", "1"]
AXES_OF_TWO_POINTS = ["--axes", "layers=1,2", "batch=2"]
needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")


@pytest.fixture(scope="module")
def scaling(run_script):
    return partial(run_script, "scaling.py")


def panels(svg: Path) -> int:
    return len(set(re.findall(r'id="(axes_\d+)"', svg.read_text(encoding="utf-8"))))


def in_svg(text: str) -> str:
    return f">{text}</text>"


@pytest.fixture(scope="module")
def measured(scaling, tmp_path_factory):
    """(what --json saved, where, what was printed) of two points, one of them on both axes."""
    file = tmp_path_factory.mktemp("scaling") / "figures.json"
    done = scaling(*AXES_OF_TWO_POINTS, *TINY, "--threads", 1, "--cases", "prompt-tuning", "--json", file)
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text(encoding="utf-8")), file, done.stdout


def test_one_number_is_changed_at_a_time(measured):
    saved, _, _ = measured
    assert (saved["base"]["layers"], saved["base"]["batch"], saved["base"]["length"]) == (1, 2, 40)
    assert {axis: [point["value"] for point in points] for axis, points in saved["axes"].items()} == {
        "layers": [1, 2],
        "batch": [2],
    }
    one, two = (point["cases"]["prompt-tuning"] for point in saved["axes"]["layers"])
    assert one["batches"] == two["batches"]
    assert min(one["median_s"], two["median_s"], one["peak_mib"], two["peak_mib"]) > 0


def test_a_point_on_two_axes_is_measured_once(measured):
    axes = measured[0]["axes"]
    assert axes["layers"][0]["cases"] == axes["batch"][0]["cases"]


def test_tables_hold_the_figures(measured):
    saved, _, printed = measured
    block = printed[printed.index("depth (layers)") : printed.index("batch size (sentences)")].splitlines()
    found = [point["cases"]["prompt-tuning"] for point in saved["axes"]["layers"]]
    assert block[0].split()[2:] == ["1", "2"]
    assert block[1].split() == ["s/step", "prompt-tuning", *(f"{figures['median_s']:.4f}" for figures in found)]
    assert block[3].split()[1:] == ["MiB", "prompt-tuning", *(f"{figures['peak_mib']:,.0f}" for figures in found)]


@needs_matplotlib
@pytest.mark.parametrize("quantity", ["time", "memory"])
def test_figure_of_saved_figures_has_a_panel_for_each_axis(scaling, measured, tmp_path, quantity):
    plot = tmp_path / "figure.svg"
    done = scaling("--read", measured[1], "--plot", plot, "--quantity", quantity)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line] == [
        line for line in measured[2].splitlines()[1:-1] if line
    ]
    assert panels(plot) == 2
    text = plot.read_text(encoding="utf-8")
    label = {"time": "seconds per step", "memory": "peak memory (MiB)"}[quantity]
    for shown in ("depth (layers)", "batch size (sentences)", label, LOOKS["prompt-tuning"].label):
        assert in_svg(shown) in text
    assert in_svg(LOOKS["fine-tuning"].label) not in text
    assert list(tmp_path.iterdir()) == [plot]


@needs_matplotlib
@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_figure_with_all_axes_and_cases(tmp_path, suffix):
    cases = {case: {"median_s": 1.0, "rounds_s": [0.9, 1.1], "peak_mib": 500.0} for case in LOOKS}
    cases["floor"] = {"error": "RuntimeError: out of memory"}
    points = {axis.setting: [{"value": value, "cases": cases} for value in axis.values] for axis in AXES.values()}
    plot = tmp_path / f"figure{suffix}"
    draw({"base": asdict(Settings(prompt_length=5)), "rounds": 2, "axes": points}, "time", plot)
    if suffix != ".svg":
        assert plot.read_bytes()[:4] in (b"\x89PNG", b"%PDF")
        return
    assert panels(plot) == 4
    text = plot.read_text(encoding="utf-8")
    assert {case for case, look in LOOKS.items() if in_svg(look.label) in text} == set(LOOKS) - {"floor"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--axes", "depth"], "--axes depth is unknown: choose from prompt-length, layers, batch, length"),
        (["--axes", "layers=two"], "--axes layers=two: give whole numbers, such as layers=2,4"),
        (["--axes", "batch=0,2"], "--axes batch=0,2: 0 is too small: give 1 or more"),
        (["--axes", "length=1"], "--length 1 has no room for <s> and </s>"),
        (["--rounds", "0"], "--rounds 0 is too small"),
        (["--cases", "peft-prompt-tuning"], "--cases peft-prompt-tuning is unknown: choose from fine-tuning,"),
        (["--plot", "figure.gif"], "--plot figure.gif: name a file that ends in .png, .svg, .pdf"),
        (["--plot", "/nowhere/figure.png"], "--plot /nowhere/figure.png: its folder does not exist"),
        (["--json", "/nowhere/figures.json"], "--json /nowhere/figures.json: its folder does not exist"),
        (["--read", "/nowhere/figures.json"], "--read /nowhere/figures.json: No such file"),
        (["--read", __file__], f"--read {__file__} is no file that --json wrote"),
    ],
)
def test_bad_input_is_one_line(scaling, arguments, message):
    done = scaling(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {message}")
    assert done.stderr.count("\n") == 1
