"""python -m run_scripts.report: what it writes, and one line for bad input."""

import subprocess
import sys
from pathlib import Path

import pytest

from run_scripts.report.__main__ import main
from tests.folders import ROOT

from . import made


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    rows = ("efl", "prompt-tuning", "S-256-layer0")
    runs = [made.run(row, task, seed) for row in rows for task in ("CR", "RTE") for seed in (1, 2)]
    return made.write(tmp_path_factory.mktemp("results"), runs)


def test_every_format_and_suffix(results, tmp_path, capsys):
    command = [str(results), "--table", "methods", "--tasks", "cr"]
    for form, suffix in (("terminal", ".txt"), ("markdown", ".md"), ("latex", ".tex"), ("csv", ".csv")):
        main([*command, "--format", form])
        main([*command, "--out", str(tmp_path / f"table{suffix}")])
        printed = capsys.readouterr().out
        saved = (tmp_path / f"table{suffix}").read_text(encoding="utf-8")
        if form == "latex":  # the notes are comments here, and a file beside the saved table
            notes = (tmp_path / "table.notes.txt").read_text(encoding="utf-8")
            saved += "".join(f"% {note}\n" for note in notes.splitlines())
        assert "prompt-tuning" in printed and saved == printed
    for suffix, start in ((".PNG", b"\x89PNG"), (".pdf", b"%PDF")):
        main([str(results), "--figure", "3", "--out", str(tmp_path / f"figure{suffix}")])
        assert (tmp_path / f"figure{suffix}").read_bytes().startswith(start)


REFUSED = [  # what is asked for, and the option, row or value that the one line names
    (["--table", "1", "--significance", "efi"], "--significance efi: did you mean efl"),
    # a family's differences are tested over seeds-of-tasks, by a t-test alone
    ("--table comparisons --tasks CR --significance efl --significance-test wilcoxon".split(), "wilcoxon"),
    (["--figure", "7", "--position", "0"], "--position .*--figure 7"),
    (["--table", "1", "--out", "table.png"], "--out table.png"),
    (["--table", "1", "--tasks", "MR"], r"--tasks MR: choose from its runs on CR, RTE \(full\)"),
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
    for name in ("records.txt", "records.svg"):  # the figure's caption would stand in records.txt
        with pytest.raises(SystemExit, match="--out .*records.txt .*RESULTS"):
            main([str(records), "--figure", "3", "--out", str(tmp_path / name)])
    assert records.read_bytes() == (results / "results.jsonl").read_bytes()


def test_it_starts_without_the_libraries_that_a_table_does_not_need(results):
    start = "import sys; from run_scripts.report.__main__ import main; main(sys.argv[1:])"
    loaded = "print({'torch', 'fairseq', 'matplotlib', 'sklearn', 'scipy'} & {*sys.modules})"  # they take seconds
    command = [sys.executable, "-c", f"{start}; {loaded}", str(results), "--table", "6"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()[-1] == "set()"
