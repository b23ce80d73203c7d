"""Bad input is an exception in a library call and one line at a command line."""

from __future__ import annotations

import errno
import pickle
import subprocess
import sys
import traceback

import pytest
from torch._utils import ExceptionWrapper

from preprocess.errors import LONGEST_SHOWN, InputError, command_line, find_input_error, shown
from tests.folders import ROOT

GARBAGE = """
from preprocess.errors import command_line
class Garbage:
    def __init__(self):
        self.itself = self
    def __del__(self):
        print("found")
with command_line('tool'): pass
garbage = Garbage()
"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("--x 1:\n give \x002"), "tool: --x 1: give \\x002"),
        (KeyboardInterrupt(), "tool: interrupted; nothing written"),
        (OSError(errno.EACCES, "Permission denied", "a/b"), "tool: a/b: "),
        (OSError(errno.ENOSPC, "No space left on device"), "tool: writing: "),
        (BrokenPipeError(), "1"),
    ],
)
def test_a_command_ends_in_one_line(error, line, monkeypatch):
    monkeypatch.setattr("sys.stdout", None)  # a broken pipe replaces it
    with pytest.raises(SystemExit) as ended, command_line("tool"):
        raise error
    assert str(ended.value.code).startswith(line) and "\n" not in str(ended.value.code)


def test_a_long_value_is_cut_in_its_middle():
    error = InputError(f"x.tsv line 3: label {'a' * 5_000_000}: give another")
    assert str(error).startswith("x.tsv line 3: ") and str(error).endswith(": give another")
    assert len(str(error)) <= LONGEST_SHOWN and str(pickle.loads(pickle.dumps(error))) == str(error)
    assert shown("\x1b[2J" * 5000).isprintable() and len(shown("a" * 5_000_000)) <= LONGEST_SHOWN


def test_a_command_ends_without_a_search_for_garbage():
    assert subprocess.check_output([sys.executable, "-c", GARBAGE], cwd=ROOT, text=True) == ""


def raised_again(error: Exception) -> Exception:
    """As torch does with an error of a data loader's process."""
    try:
        raise error
    except Exception:
        wrapped = ExceptionWrapper(where="in DataLoader worker process 0")
    with pytest.raises(type(error)) as raised:
        wrapped.reraise()
    return raised.value


def test_the_line_of_another_process():
    error = raised_again(raised_again(InputError("--x 1: give 2")))
    assert isinstance(error, InputError) and str(error) == "--x 1: give 2"
    assert find_input_error("".join(traceback.format_exception(InputError("--x 1: give 2")))) == "--x 1: give 2"
    assert find_input_error("Traceback (most recent call last):\nValueError: another") is None
