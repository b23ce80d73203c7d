"""Bad input is an exception in a library call and one line at a command line."""

import errno

import pytest
from torch._utils import ExceptionWrapper

from preprocess.errors import InputError, command_line


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


def test_the_line_of_another_process():
    """torch raises an error of a data loader's process once more, also through two of them."""
    error: Exception = InputError("--x 1: give 2")
    for _ in range(2):
        try:
            raise error
        except InputError:
            wrapped = ExceptionWrapper(where="in DataLoader worker process 0")
        with pytest.raises(InputError, match="^--x 1: give 2$") as raised:
            wrapped.reraise()
        error = raised.value
