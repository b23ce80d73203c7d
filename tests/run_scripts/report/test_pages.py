"""What pages show of published records is what they print."""

from __future__ import annotations

import json
import re
import shlex
from functools import lru_cache
from itertools import filterfalse
from pathlib import Path
from statistics import mean, stdev
from typing import Any
from xml.etree import ElementTree

import matplotlib
import pytest

from run_scripts.report.__main__ import main as report
from run_scripts.report.pages import MARK, main, renewed
from run_scripts.report.paper import paper
from run_scripts.report.runs import grouped
from tests.folders import ROOT

from . import made

RECORDS = ROOT / "run_scripts" / "results"
PAGES = {
    str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
    for folder in (".", "run_scripts", "fairseq_idpg", "benchmarks", "preprocess", "checkpoints")
    for page in (ROOT / folder).glob("*.md")
}
PRINTED = [page for page, text in PAGES.items() if "<!-- printed by: " in text]
DRAWN = [(page, mark) for page in PRINTED for mark in MARK.finditer(PAGES[page]) if " --out " in mark["arguments"]]


@pytest.mark.parametrize("page", PRINTED)
def test_a_page_shows_what_its_commands_print(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert PAGES[page] == renewed(PAGES[page]), f"run: python -m run_scripts.report.pages {page}"
    assert len(MARK.findall(PAGES[page])) == PAGES[page].count("<!-- printed by: ")


def difference(printed: str, k: int | None, row: str, reference: str) -> tuple[str, str, str]:
    """(number, p, stars) of the first table in ``printed`` that has K and row, as in ``+4.3 (p<0.001**, n=25)``.

    ``k`` None: the table of all examples.
    """
    header: list[str] = []
    start, names = ([row], ["method"]) if k is None else ([str(k), row], ["K", "method"])
    for line in printed.splitlines():
        cells = re.split(r" {2,}", line.strip())
        if cells[: len(names)] == names:
            header = cells
        if header[: len(names)] == names and f"minus {reference}" in header and cells[: len(start)] == start:
            cell = dict(zip(header, cells))[f"minus {reference}"]
            return re.fullmatch(r"(\S+) \(p[= ]?(<?\d\.\d+)(\**), n=\d+\)", cell).groups()
    raise AssertionError(f"no table has {row} with K = {k}")


SAME_SOURCE = ("MR", "Reviews")


@pytest.fixture
def without(capsys):
    """(K, a task) -> Table 3 of the other tasks that the summary is of."""

    def table(k: int, task: str) -> str:
        tasks = [each for each in ("CR", "MR", "STS-B", "MRPC", "Reviews") if each != task]
        rows = ["--rows", "prompt-tuning", "p-tuning-v2", "m-idpg-phm", "m-idpg-phm-mean"]
        minus = ["--significance", "prompt-tuning", "--significance", "p-tuning-v2"]
        report(
            [str(RECORDS / "minilm-few-shot.jsonl"), "--table", "3", "--k", str(k), "--tasks", *tasks, *rows, *minus]
        )
        return capsys.readouterr().out

    return lru_cache(None)(table)


def test_the_summary_of_results_is_that_of_its_tables(without):
    """Bold where a difference stands corrected, and without either of two tasks that are of one source."""
    page = PAGES["run_scripts/RESULTS.md"]
    lines = re.findall(r"^\| (.+) minus (.+?) \| (.+) \|$", page, re.MULTILINE)
    assert len(lines) == 5
    for label, reference, cells in lines:
        row = {"P-tuning v2": "p-tuning-v2", "M-IDPG (`<s>`)": "m-idpg-phm", "M-IDPG (mean)": "m-idpg-phm-mean"}[label]
        other = reference.lower().replace(" ", "-")
        *ours, papers = cells.split(" | ")
        for k, cell in zip((100, 500, 1000, None), ours):
            if cell != "not run":
                number, p, stars = difference(page, k, row, other)
                stands = stars == "**" and all(difference(without(k, task), k, row, other)[2] for task in SAME_SOURCE)
                bold = "**" if stands else ""
                assert cell == f"{bold}{number} ({p.replace('<', '< ')}){bold}"
        of_tasks = {100: ("CR", "MR", "STS-B", "MRPC"), 500: ("CR", "MR", "STS-B", "MRPC"), 1000: ("CR", "MR")}
        blocks = [(tasks, paper().blocks[3][k]) for k, tasks in of_tasks.items()]
        blocks.append((("CR", "MR"), paper().blocks[1][None]))
        printed = [f"{of_k[row].average(of) - of_k[other].average(of):+.1f}" for of, of_k in blocks if row in of_k]
        assert papers == (", ".join(printed) or "-")


def test_a_page_that_is_no_text(tmp_path):
    page = tmp_path / "page.md"
    page.write_bytes(b"caf\xe9\n")
    with pytest.raises(SystemExit, match="page.md line 1: byte 0xe9 is not UTF-8: convert the file"):
        main([str(page)])
    assert page.read_bytes() == b"caf\xe9\n"


def arguments_of(drawn: tuple[str, re.Match]) -> list[str]:
    return shlex.split(drawn[1]["arguments"])


def words(svg: Path) -> list[str]:
    return sorted(" ".join(ElementTree.parse(svg).getroot().itertext()).split())


def places(svg: Path) -> list[float]:
    """Of all lines and marks."""
    drawn = [node.get(name, "") for node in ElementTree.parse(svg).iter() for name in ("d", "x", "y")]
    return [float(number) for number in re.findall(r"-?\d+\.?\d*", " ".join(drawn))]


@pytest.mark.parametrize("page, mark", DRAWN)
def test_a_figure_of_a_page_is_what_its_command_draws(page, mark, tmp_path, monkeypatch):
    """In its words, and where it was drawn by the same matplotlib in all points."""
    monkeypatch.chdir(ROOT)
    arguments = arguments_of((page, mark))
    at = arguments.index("--out") + 1
    there, again = Path(arguments[at]), tmp_path / "again.svg"
    report([*arguments[:at], str(again), *arguments[at + 1 :]])
    assert f"]({there.relative_to(Path(page).parent)})" in PAGES[page]
    remedy = f"run: python -m run_scripts.report.pages {page}"
    if f"Matplotlib v{matplotlib.__version__}," in there.read_text(encoding="utf-8"):
        assert places(there) == pytest.approx(places(again), abs=0.01), remedy
    version = re.compile(r"v[0-9.]+,")
    assert [*filterfalse(version.match, words(there))] == [*filterfalse(version.match, words(again))], remedy


def test_all_records_and_figures_are_shown_somewhere():
    shown = {name for text in PAGES.values() for name in re.findall(r"printed by: .*? run_scripts/results/(\S+)", text)}
    drawn = {Path(arguments[arguments.index("--out") + 1]).name for arguments in map(arguments_of, DRAWN)}
    assert shown | drawn == {path.name for path in RECORDS.glob("*")} and shown


def test_records_are_small_and_say_nothing_of_machines():
    for path in RECORDS.glob("*.jsonl"):
        text = path.read_text(encoding="utf-8")
        assert len(text) < 2_000 * text.count("\n")
        assert not re.search(r'"(/|~|[A-Z]:)', text)


def trained_twice() -> list[list[dict[str, Any]]]:
    """Records of runs that are the same but for their name, day and device."""
    what_decides = ("method", "task", "setting", "k", "seed", "lr", "position", "prompt_length", "given_options")
    runs = {
        (record["run"], record["finished"]): record  # one may stand in several files
        for path in RECORDS.glob("minilm-*.jsonl")
        for record in map(json.loads, path.read_text(encoding="utf-8").splitlines())
    }
    cells = grouped(runs.values(), lambda run: str([run[name] for name in what_decides])).values()
    return [sorted(cell, key=lambda run: run["finished"]) for cell in cells if len(cell) > 1]


def of_torch(runs: list[dict[str, Any]]) -> list[str]:
    return [run["versions"]["torch"] for run in runs]


def test_runs_that_were_trained_twice_have_the_same_scores():
    """Under another name, on another day and with a later version: to the last digit, as RESULTS.md says."""
    on_a_cpu = [cell for cell in trained_twice() if len({*of_torch(cell)}) == 1]
    again = [cell for cell in on_a_cpu if cell[0]["row"] != cell[1]["row"]]
    (redrawn,) = [cell for cell in on_a_cpu if cell not in again]  # with pads left out the second time
    assert [(run["task"], run["seed"], run["test"]) for run in redrawn] == [("CR", 3, 86.8), ("CR", 3, 85.2)]
    assert {run["row"] for cell in again for run in cell} == {"m-idpg-phm", "M-16-layer0"} and len(again) == 4
    for first, second in again:
        assert first["git"] != second["git"]
        for name in ("dev_curve", "scores", "best_update"):
            assert first[name] == second[name]


def test_runs_on_a_gpu_differ_from_those_on_a_cpu_as_draws_do():
    again = [cell for cell in trained_twice() if len({*of_torch(cell)}) > 1]
    assert all(of_torch(cell) == ["2.13.0+cpu", "2.11.0"] for cell in again) and len(again) == 13
    differences = [gpu["test"] - cpu["test"] for cpu, gpu in again]
    assert [round(min(map(abs, differences)), 1), round(max(map(abs, differences)), 1)] == [0.2, 2.4]
    assert round(mean(differences), 1) == -0.1 and round(stdev(differences), 1) == 1.8


def test_a_page_is_printed_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made.write(tmp_path / "runs.jsonl", [made.run("adapter", "CR", test=71.0)])
    page = tmp_path / "page.md"
    mark = "<!-- printed by: python -m run_scripts.report runs.jsonl --table 1 --tasks 'CR' --rows adapter -->\n"
    page.write_text(f"before\n{mark}old\n<!-- end -->\nafter\n<!-- end -->\n")
    main([str(page)])
    text = page.read_text()
    assert text.startswith(f"before\n{mark}```text\nTable 1: full training\n") and "71.0" in text and "old" not in text
    assert text.endswith("```\n<!-- end -->\nafter\n<!-- end -->\n")
    main([str(page)])
    assert page.read_text() == text


def test_a_figure_is_drawn_where_a_page_is_printed_anew_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    curve = [[10, 60.0], [20, 70.0]]
    made.write(tmp_path / "runs.jsonl", [made.run("adapter", "CR", dev_curve=curve)])
    page = tmp_path / "page.md"
    asked = "runs.jsonl --figure curves --tasks CR --out curves.svg --format terminal"
    page.write_text(f"<!-- printed by: python -m run_scripts.report {asked} -->\n<!-- end -->\n")
    assert "Dev scores over the updates" in renewed(page.read_text()) and not Path("curves.svg").exists()
    main([str(page)])
    assert renewed(page.read_text()) == page.read_text() and "adapter" in words(Path("curves.svg"))
    first = Path("curves.svg").read_bytes()
    main([str(page)])
    assert Path("curves.svg").read_bytes() == first


def test_a_page_is_left_as_it_was_where_a_command_fails(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("<!-- printed by: python -m run_scripts.report none.jsonl -->\nold\n<!-- end -->\n")
    with pytest.raises(SystemExit, match="none.jsonl does not exist"):
        main([str(page)])
    assert "old" in page.read_text()
