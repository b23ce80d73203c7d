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

TASKS = ("CR", "RTE")
STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def runs():
    """All that the tables and figures need."""
    few = {"setting": "few-shot", "k": 100}
    for task, seed in itertools.product(TASKS, (1, 2)):
        for row in ("efl", "m-idpg-phm", "S-256-layer0", "phm"):
            yield made.run(row, task, seed, test=80 + seed)
        yield made.run("efl", task, seed, **few)
        for position, length in ((0, 5), (1, 5), (0, 20), (1, 20)):
            yield made.run("prompt-tuning", task, seed, position=position, prompt_length=length)


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    return made.write(tmp_path_factory.mktemp("results"), runs())


CHOSEN = ("--position", "0", "1")


def error(*arguments) -> str:
    with pytest.raises(SystemExit) as stopped:
        main([*map(str, arguments)])
    assert isinstance(stopped.value.code, str)  # which Python prints, and ends with status 1
    assert stopped.value.code.startswith("run_scripts: ") and "\n" not in stopped.value.code
    return stopped.value.code


@pytest.mark.parametrize("number", [1, 3, 6, 7])
def test_tables_are_printed(results, capsys, number):
    main([str(results), "--table", str(number), *CHOSEN, "--tasks", "cr", "RTE"])
    assert f"Table {number}:" in capsys.readouterr().out


def test_the_table_of_methods_in_every_format(results, tmp_path, capsys):
    command = [str(results), "--table", "methods", "--tasks", "cr", "--position", "0", "--prompt-length", "20"]
    main(command)
    printed = capsys.readouterr().out
    assert printed.startswith("Methods on CR\n") and "s/update" in printed
    assert all(row in printed for row in ("efl", "m-idpg-phm", "prompt-tuning", "phm"))
    for form, start in (("markdown", "**Methods on CR**"), ("latex", "% "), ("csv", "method,test,lr,trainable,")):
        main([*command, "--format", form])
        assert capsys.readouterr().out.startswith(start)


def test_csv_goes_to_a_file_and_what_is_said_to_stderr(results, tmp_path, capsys):
    out = tmp_path / "new" / "table.csv"
    main([str(results), "--table", "1", *CHOSEN, "--significance", "efl", "--out", str(out)])
    printed = capsys.readouterr()
    assert printed.out == "" and "learning rate with the best mean dev" in printed.err
    with open(out, encoding="utf-8", newline="") as file:
        ours = {row["method"]: row for row in csv.DictReader(file) if row["values"] == "ours"}
    assert ours["m-idpg-phm"]["CR"] == "81.5±0.7"
    assert ours["m-idpg-phm"]["minus efl"] == "+0.0 (p=-, n=4)"
    assert [path.name for path in out.parent.iterdir()] == ["table.csv"]


def test_a_table_goes_through_a_link(results, tmp_path):
    (tmp_path / "link.md").symlink_to(tmp_path / "table.md")
    main([str(results), "--table", "1", *CHOSEN, "--out", str(tmp_path / "link.md")])
    assert (tmp_path / "link.md").is_symlink() and "Table 1" in (tmp_path / "table.md").read_text()
    main([str(results), "--table", "1", *CHOSEN, "--out", "/dev/null"])
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("suffix, start", [(".md", "**Table 1"), (".tex", "% \\usepackage"), (".txt", "Table 1")])
def test_the_suffix_chooses_the_format(results, tmp_path, suffix, start):
    out = tmp_path / f"table{suffix}"
    main([str(results), "--table", "1", *CHOSEN, "--out", str(out)])
    assert out.read_text(encoding="utf-8").startswith(start)


@pytest.mark.parametrize("number, suffix", [(3, ".png"), (3, ".PNG"), (7, ".svg"), (9, ".pdf")])
def test_figures_are_drawn(results, tmp_path, capsys, number, suffix):
    chosen = ["--position", "0", "1"] if number == 9 else []
    out = tmp_path / f"figure{suffix}"
    main([str(results), "--figure", str(number), *chosen, "--out", str(out)])
    assert out.read_bytes().startswith(STARTS[suffix.lower()])
    assert capsys.readouterr().out == ""
    if suffix == ".svg":
        ElementTree.parse(out)


def test_a_figures_numbers_are_printed_without_an_image_or_beside_it(results, tmp_path, capsys):
    command = [str(results), "--figure", "9", "--position", "0", "1"]
    main(command)
    grid = capsys.readouterr().out
    assert grid.startswith("Figure 9") and "80.0" in grid
    main([*command, "--out", str(tmp_path / "f.png"), "--format", "terminal"])
    assert capsys.readouterr().out == grid
    assert (tmp_path / "f.png").exists()


def test_without_a_table_or_figure_it_says_what_there_is(results, capsys):
    main([str(results)])
    printed = capsys.readouterr().out
    assert f"{sum(1 for _ in runs())} runs" in printed and "prompt-tuning" in printed


def test_results_that_are_not_there_or_empty(tmp_path):
    assert "results.jsonl does not exist" in error(tmp_path / "gone", "--table", 1)
    (tmp_path / "results.jsonl").write_text("")
    assert "holds no runs" in error(tmp_path, "--table", 2)


def test_damaged_results(tmp_path):
    made.write(tmp_path, [{"run": "0123456789ab", "row": "a", "task": "CR", "status": "done"}])
    assert "run 0123456789ab has no setting, k, selection" in error(tmp_path)
    (tmp_path / "results.jsonl").write_text('{"run": 1\n{"run": 2}\n')
    assert "line 1 is damaged" in error(tmp_path)
    (tmp_path / "results.jsonl").write_text("")
    made.write(tmp_path, [{**made.run("a", "CR"), "task": "CRR"}])
    assert "of task CRR, which is unknown" in error(tmp_path)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--table", "1"], "prompt-tuning on single sentences has runs with more than one position"),
        (["--table", "1", *CHOSEN, "--significance", "efi"], "--significance efi: did you mean efl? choose from"),
        (
            ["--table", "1", "--rows", "efl", "prompttuning", *CHOSEN],
            "--rows prompttuning: did you mean prompt-tuning?",
        ),
        (
            ["--table", "3", "--rows", "adapters"],
            "no finished few-shot run with K = 100, 500, 1000 for this with --rows",
        ),
        (["--rows", "efl"], "--rows means nothing to a command without --table and --figure"),
        (["--seeds", "1"], "--seeds means nothing to a command without --table and --figure"),
        (["--table", "1", *CHOSEN, "--tasks", "CRR"], "task CRR is unknown: did you mean CR?"),
        (["--table", "1", "--position", "0", "1", "4"], "--position 0 1 4: give one position, or one for singles"),
        (["--table", "1", "--backbone", "nope"], "no finished full run for this with --backbone nope"),
        (["--table", "2", "--voting"], "--voting means nothing to --table 2"),
        (["--figure", "7", "--position", "0"], "--position means nothing to --figure 7"),
        (["--figure", "3", "--significance", "efl"], "--significance means nothing to --figure 3"),
        (["--table", "methods", "--significance", "efl"], "--significance means nothing to --table methods"),
        *(
            (["--table", "1", f"--significance-{name}", value], f"--significance-{name} means nothing without --signif")
            for name, value in (("test", "t"), ("over", "tasks"))
        ),
        (["--table", "methods", "--paper"], "--paper means nothing to --table methods"),
        (["--table", "methods", "--k", "5"], "no finished few-shot run with K = 5"),
        *((["--table", "idspam-12", f"--{name}", "1"], f"--{name} means nothing to") for name in ("seeds", "position")),
        (["--table", "idspam-12", "--tasks", "CR"], "--tasks means nothing to --table idspam-12"),
        (["--figure", "9", "--paper"], "--paper means nothing to --figure 9"),
        (["--table", "3", "--k", "5"], "no finished few-shot run with K = 5"),
        (["--voting"], "--voting means nothing to a command without --table and --figure"),
        (["--figure", "9", "--k", "500"], "no finished few-shot run with K = 500"),
        (["--table", "1", "--out", "table.png"], "--out table.png: name a file that ends with .txt, .md, .tex, .csv"),
        (
            ["--figure", "3", "--out", "figure.jpg"],
            "--out figure.jpg: name a file that ends with .txt, .md, .tex, .csv, .png",
        ),
    ],
)
def test_bad_options_are_one_line(results, monkeypatch, tmp_path, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert said in error(results, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_records_are_not_replaced_by_their_table(results, tmp_path):
    records = tmp_path / "records.txt"
    records.write_bytes((results / "results.jsonl").read_bytes())
    said = "--out .*records.txt is the file of RESULTS, which it would replace: name another"
    with pytest.raises(SystemExit, match=said):
        main([str(records), "--out", str(records)])
    assert records.read_bytes() == (results / "results.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["table.md", "figure.png"])
def test_places_that_cannot_be_written(results, tmp_path, name):
    (tmp_path / "file").write_text("")
    product = ["--table", "1", *CHOSEN] if name == "table.md" else ["--figure", "3"]
    message = error(results, *product, "--out", tmp_path / "file" / name)
    said = "cannot be written to" if name == "table.md" else "nothing written"
    assert str(tmp_path / "file") in message and said in message
    (tmp_path / name).mkdir()
    assert name in error(results, *product, "--out", tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["file", name])


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--table", "4"], ["--table", "method"], ["--figure", "2"], ["--table", "1", "--figure", "1"]),
        *(["--table", "1", "--position", "5"], ["--table", "1", "--supplementary-position", "-1"]),
    ],
)
def test_tables_figures_and_positions_that_there_are_not(results, capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(results), *arguments])
    assert stopped.value.code == 2
    assert arguments[-2] in capsys.readouterr().err


def test_as_a_command(results):
    command = [sys.executable, "-m", "run_scripts.report", str(results), "--table", "6"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "S-256-layer0" in done.stdout
    failed = subprocess.run([*command[:-1], "1"], cwd=ROOT, capture_output=True, text=True)
    assert failed.returncode == 1 and failed.stdout == "" and len(failed.stderr.splitlines()) == 1
