"""python -m run_scripts.report: what it writes, and one line for bad input."""

from __future__ import annotations

import csv
import itertools
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
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


@pytest.mark.parametrize("number", [1, 3, 6, 7])
def test_tables_are_printed(results, capsys, number):
    main([str(results), "--table", str(number), *CHOSEN, "--tasks", "cr", "RTE"])
    assert f"Table {number}:" in capsys.readouterr().out


def test_every_format_and_suffix(results, tmp_path, capsys):
    command = [str(results), "--table", "methods", "--tasks", "cr", "--position", "0", "--prompt-length", "20"]
    main(command)
    printed = capsys.readouterr().out
    assert all(row in printed for row in ("efl", "m-idpg-phm", "prompt-tuning", "phm"))
    for form, suffix in (("terminal", ".txt"), ("markdown", ".md"), ("latex", ".tex"), ("csv", ".csv")):
        main([*command, "--format", form])
        main([*command, "--out", str(tmp_path / f"table{suffix}")])
        printed = capsys.readouterr().out
        assert printed and (tmp_path / f"table{suffix}").read_text(encoding="utf-8") == printed


def test_notes_are_three_lines_unless_all_are_asked_for(results, capsys):
    command = [str(results), "--table", "1", *CHOSEN, "--significance", "efl"]
    main(command)
    few = capsys.readouterr().out.split("\n\n")[-1].splitlines()
    main([*command, "--notes"])
    every = capsys.readouterr().out.split("\n\n")[-1].splitlines()
    assert len(few) <= 3 < len(every) and every[: len(few)] == few
    assert any(note.startswith("learning rates tried") for note in every)


def test_csv_goes_to_a_file_and_what_is_said_to_stderr(results, tmp_path, capsys):
    out = tmp_path / "new" / "table.csv"
    main([str(results), "--table", "1", *CHOSEN, "--significance", "efl", "--out", str(out)])
    printed = capsys.readouterr()
    assert printed.out == "" and "learning rate with the best mean dev" in printed.err
    with open(out, encoding="utf-8", newline="") as file:
        ours = {row["method"]: row for row in csv.DictReader(file) if row["values"] == "ours"}
    assert (ours["m-idpg-phm"]["CR"], ours["m-idpg-phm"]["minus efl"]) == ("81.5±0.7", "+0.0 (p=-, n=4)")
    assert [path.name for path in out.parent.iterdir()] == ["table.csv"]


@pytest.mark.parametrize("number, suffix", [(3, ".PNG"), (7, ".svg"), (9, ".pdf")])
def test_figures_are_drawn_and_their_numbers_printed(results, tmp_path, capsys, number, suffix):
    chosen = CHOSEN if number == 9 else []
    command, out = [str(results), "--figure", str(number), *chosen], tmp_path / f"figure{suffix}"
    main(command)
    grid = capsys.readouterr().out
    assert grid.startswith(f"Figure {number}") and "80.0" in grid or number == 3
    main([*command, "--out", str(out)])
    assert out.read_bytes().startswith(STARTS[suffix.lower()]) and capsys.readouterr().out == ""
    if suffix == ".svg":
        ElementTree.parse(out)
        main([*command, "--out", str(out), "--format", "terminal"])
        assert capsys.readouterr().out == grid


def test_figures_and_tables_of_other_papers(tmp_path, capsys):
    accuracy = {split: {"accuracy": 80.0} for split in ("dev", "test")}
    made.write(tmp_path, [made.run(row, "RTE", scores=accuracy) for row in ("lpt-m3", "lpt")])
    main([str(tmp_path), "--table", "idspam-2"])
    main([str(tmp_path), "--figure", "idspam-2", "--out", str(tmp_path / "f.svg"), "--format", "csv"])
    printed = capsys.readouterr().out
    assert printed.startswith("ID-SPAM, Table 2: GLUE\n") and "method,task,3\n" in printed


REFUSED = [  # what is asked for, and the option, row or value that the one line names
    (["--table", "1"], "prompt-tuning on single sentences .*position"),
    (["--table", "1", *CHOSEN, "--significance", "efi"], "--significance efi: did you mean efl"),
    (["--table", "1", *CHOSEN, "--rows", "efl", "prompttuning"], "--rows prompttuning: did you mean prompt-tuning"),
    (["--table", "3", "--rows", "adapters"], "--rows"),
    (["--table", "1", *CHOSEN, "--tasks", "CRR"], "CRR .*did you mean CR"),
    (["--table", "1", "--position", "0", "1", "4"], "--position 0 1 4"),
    (["--table", "1", "--backbone", "nope"], "--backbone nope"),
    (["--table", "methods", "--k", "5"], "K = 5"),
    (["--figure", "9", "--k", "500"], "K = 500"),
    (["--rows", "efl"], "--rows"),
    (["--table", "2", "--voting"], "--voting .*--table 2"),
    (["--table", "1", "--k", "100"], "--k .*--table 1"),
    (["--figure", "7", "--position", "0"], "--position .*--figure 7"),
    (["--figure", "3", "--significance", "efl"], "--significance .*--figure 3"),
    (["--table", "methods", "--paper"], "--paper .*--table methods"),
    (["--table", "idspam-12", "--seeds", "1"], "--seeds .*--table idspam-12"),
    (["--table", "1", "--significance-test", "t"], "--significance-test"),
    (["--table", "1", "--out", "table.png"], "--out table.png"),
    (["--figure", "3", "--out", "figure.jpg"], "--out figure.jpg"),
]


@pytest.mark.parametrize(("arguments", "named"), REFUSED, ids=[" ".join(arguments) for arguments, _ in REFUSED])
def test_bad_options_are_one_line(results, monkeypatch, tmp_path, arguments, named):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=f"^run_scripts: .*{named}.*$"):
        main([str(results), *arguments])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["--table", "4"], ["--table", "idspam-13"], ["--figure", "2"], ["--table", "1", "--position", "5"]]
)
def test_tables_figures_and_positions_that_there_are_not(results, capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(results), *arguments])
    assert stopped.value.code == 2 and arguments[-2] in capsys.readouterr().err


def test_records_are_not_replaced_by_their_table(results, tmp_path):
    records = tmp_path / "records.txt"
    records.write_bytes((results / "results.jsonl").read_bytes())
    with pytest.raises(SystemExit, match="--out .*records.txt .*RESULTS"):
        main([str(records), "--out", str(records)])
    assert records.read_bytes() == (results / "results.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["table.md", "figure.png"])
def test_places_that_cannot_be_written(results, tmp_path, name):
    (tmp_path / "file").write_text("")
    (tmp_path / name).mkdir()
    product = ["--table", "1", *CHOSEN] if name == "table.md" else ["--figure", "3"]
    for out in (tmp_path / "file" / name, tmp_path / name):
        with pytest.raises(SystemExit, match=str(tmp_path)):
            main([str(results), *product, "--out", str(out)])
    assert {path.name for path in tmp_path.iterdir()} == {"file", name}


def test_it_starts_without_the_libraries_that_a_table_does_not_need(results):
    slow = {"torch", "fairseq", "matplotlib", "sklearn", "scipy"}  # which take seconds
    start = "import sys; from run_scripts.report.__main__ import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", f"{start}; print({slow} & {{*sys.modules}})", str(results), "--table", "6"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "S-256-layer0" in done.stdout and done.stdout.splitlines()[-1] == "set()"
