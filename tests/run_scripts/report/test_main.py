"""python -m run_scripts.report: what it writes, and one line for bad input."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from run_scripts.report.__main__ import main
from tests.folders import ROOT

from . import made

STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
CHOSEN = ("--position", "0", "1")


def runs():
    """All that the tables and figures need."""
    for task, seed in itertools.product(("CR", "RTE"), (1, 2)):
        for row in ("efl", "m-idpg-phm", "S-256-layer0", "phm"):
            yield made.run(row, task, seed, test=80 + seed)
        yield made.run("efl", task, seed, **made.FEW)
        for position, length in ((0, 5), (1, 5), (0, 20), (1, 20)):
            yield made.run("prompt-tuning", task, seed, position=position, prompt_length=length)


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    return made.write(tmp_path_factory.mktemp("results"), runs())


def test_every_format_and_suffix(results, tmp_path, capsys):
    command = [str(results), "--table", "methods", "--tasks", "cr", "--position", "0", "--prompt-length", "20"]
    main(command)
    printed = capsys.readouterr().out
    assert all(row in printed for row in ("efl", "prompt-tuning"))
    for form, suffix in (("terminal", ".txt"), ("markdown", ".md"), ("latex", ".tex"), ("csv", ".csv")):
        main([*command, "--format", form])
        main([*command, "--out", str(tmp_path / f"table{suffix}")])
        printed = capsys.readouterr().out
        assert printed and (tmp_path / f"table{suffix}").read_text(encoding="utf-8") == printed


def test_figures_are_drawn_and_their_numbers_printed(results, tmp_path, capsys):
    for command, suffix in (("3", ".PNG"), ("7", ".svg"), ("9 --position 0 1", ".pdf")):
        words, out = [str(results), "--figure", *command.split()], tmp_path / f"figure{suffix}"
        main(words)
        printed = capsys.readouterr().out
        main([*words, "--out", str(out)])
        assert out.read_bytes().startswith(STARTS[suffix.lower()]) and capsys.readouterr().out == ""
        main([*words, "--out", str(out), "--format", "terminal"])
        assert capsys.readouterr().out == printed and printed.startswith(f"Figure {command[0]}")


REFUSED = [  # what is asked for, and the option, row or value that the one line names
    (["--table", "1"], "prompt-tuning on single sentences .*position"),
    (["--table", "1", *CHOSEN, "--significance", "efi"], "--significance efi: did you mean efl"),
    (["--table", "1", *CHOSEN, "--rows", "efl", "prompttuning"], "--rows prompttuning: did you mean prompt-tuning"),
    (["--table", "2", "--voting"], "--voting .*--table 2"),
    (["--figure", "7", "--position", "0"], "--position .*--figure 7"),
    (["--table", "1", "--out", "table.png"], "--out table.png"),
]


@pytest.mark.parametrize(("arguments", "named"), REFUSED, ids=[" ".join(arguments) for arguments, _ in REFUSED])
def test_bad_options_are_one_line(results, monkeypatch, tmp_path, arguments, named):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=f"^run_scripts: .*{named}.*$"):
        main([str(results), *arguments])
    assert list(tmp_path.iterdir()) == []


def test_records_are_not_replaced_by_their_table(results, tmp_path):
    records = tmp_path / "records.txt"
    records.write_bytes((results / "results.jsonl").read_bytes())
    with pytest.raises(SystemExit, match="--out .*records.txt .*RESULTS"):
        main([str(records), "--out", str(records)])
    assert records.read_bytes() == (results / "results.jsonl").read_bytes()


def test_it_starts_without_the_libraries_that_a_table_does_not_need(results):
    slow = {"torch", "fairseq", "matplotlib", "sklearn", "scipy"}  # which take seconds
    start = "import sys; from run_scripts.report.__main__ import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", f"{start}; print({slow} & {{*sys.modules}})", str(results), "--table", "6"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "S-256-layer0" in done.stdout and done.stdout.splitlines()[-1] == "set()"
