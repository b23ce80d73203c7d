"""Options of several values, on every command line of ours; read from the source."""

import ast

import pytest

from fairseq_idpg import predict
from preprocess.cli import run as preprocess
from run_scripts.sweep import __main__ as sweep
from tests.test_imports import BELOW, ROOT, files


def several():
    """(place, keywords) of every option, not argument, that takes one value or more."""
    for path in (path for folder in BELOW if folder != "tests" for path in files(folder)):
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                keywords = {word.arg: word.value for word in node.keywords}
                nargs = keywords.get("nargs")
                if isinstance(nargs, ast.Constant) and nargs.value == "+" and str(node.args[0].value).startswith("--"):
                    yield f"{path}:{node.lineno}", keywords


def test_an_option_given_twice_has_the_values_of_both():
    """argparse would keep the last ones alone, and add to a default of its own."""
    found = dict(several())
    assert len(found) >= 10
    for place, keywords in found.items():
        action = keywords.get("action")
        assert isinstance(action, ast.Constant) and action.value == "extend", place
        assert "default" not in keywords, place


def test_an_empty_path_is_not_the_current_folder(capsys):
    """A shell makes it of a variable that is not set."""
    for command, words, option in (
        (preprocess, ["mine", "--from-tsv", "train=x.tsv", "--text-columns", "a"], "--out"),
        (sweep.main, ["smoke.yaml", "--dry-run"], "--results"),
        (predict.main, ["--path", "x.pt", "--text", "x.txt"], "--out"),
    ):
        with pytest.raises(SystemExit):
            command([*words, option, ""])
        assert capsys.readouterr().err.endswith(f"error: argument {option}: is empty: name a path\n")
