"""How bad input is reported: an exception in a library call, one line at a command line."""

import atexit
import contextlib
import errno
import gc
import io
import os
import sys
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

LONGEST_SHOWN = 10_000  # characters of a message, or of a name in one


class InputError(Exception):
    """Bad input: one line that names the option or file, its value and the remedy."""

    def __init__(self, message: str):
        # torch raises an error of another process once more, with its whole traceback for a message
        super().__init__(shortened(find_input_error(message) or message))


def find_input_error(text: str) -> str | None:
    """Return the message of the InputError that a traceback ends with, also within another's message; or None."""
    _, name, message = f"\n{text.strip()}".rpartition(f"\n{InputError.__module__}.{InputError.__qualname__}: ")
    return message if name and "\nTraceback (" not in message else None


@contextlib.contextmanager
def command_line(program: str, unfinished: str = "nothing written") -> Iterator[None]:
    """Turn the errors of a command, bad input or what the system refuses, into one line on stderr and status 1.

    The line begins with ``program``, and ends with ``unfinished`` after an interruption or a refusal of the system.
    """
    end_at_once()
    # where standard output cannot encode a label or file name, print the escapes that Python writes
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() not in ("utf-8", "utf8"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
        return
    except InputError as error:
        line = str(error)
    except KeyboardInterrupt:
        line = f"interrupted; {unfinished}"
    except BrokenPipeError:  # the reader of the output has ended, as in "| head"
        sys.stdout = open(os.devnull, "w")
        sys.exit(1)
    except OSError as error:
        room = "; make room there" if error.errno == errno.ENOSPC else ""
        line = f"{error.filename or 'writing'}: {error.strerror or error}{room}; {unfinished}"
    sys.exit(f"{program}: {one_line(line)}")


def end_at_once() -> None:
    """Skip the search for garbage in torch and fairseq at the end of the process: it takes one to two seconds."""
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)


def did_you_mean(name: str, known: Iterable[str], any_case: bool = False) -> str:
    """Return "did you mean ...? " where a known name is near, else ""; ``any_case``: ignore upper and lower case."""
    by_key = {each.lower() if any_case else each: each for each in known}
    near = get_close_matches(name.lower() if any_case else name, by_key, 1)
    return f"did you mean {by_key[near[0]]}? " if near else ""


def reason_of(error: Exception, most: int | None = 200) -> str:
    """Return an error of another library on one line, cut to ``most`` characters."""
    return " ".join(str(error).split())[:most]


def one_line(message: str) -> str:
    """Return a message on one line, see ``shown``."""
    return shown(" ".join(message.split()))


def shown(text: str) -> str:
    """Return a text from a file as a terminal may get it: ``escaped`` and ``shortened``."""
    return escaped(shortened(text))


def escaped(text: str) -> str:
    """Return a text with control characters as Python writes them: a terminal would obey raw ones."""
    return text if text.isprintable() else "".join(s if s.isprintable() else repr(s)[1:-1] for s in text)


def shortened(text: str) -> str:
    """Return a text, or the beginning and the end of one that is longer than ``LONGEST_SHOWN``."""
    half = LONGEST_SHOWN // 2
    return text if len(text) <= LONGEST_SHOWN else f"{text[: half - 5]} ... {text[-half:]}"
