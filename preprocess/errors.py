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
    """The message of the InputError that a traceback ends with, also one within the message of another; or None."""
    _, found, message = f"\n{text.strip()}".rpartition(f"\n{InputError.__module__}.{InputError.__qualname__}: ")
    return message if found and "\nTraceback (" not in message else None


@contextlib.contextmanager
def command_line(program: str, unfinished: str = "nothing written") -> Iterator[None]:
    """Around a command: bad input, or what the system refuses, becomes one line on stderr and status 1.

    The line begins with ``program``, and ends with ``unfinished`` after an interruption or a refusal of the system.
    """
    end_at_once()
    # labels and file names that the encoding of standard output has no characters for are printed as Python writes them
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() not in ("utf-8", "utf8"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
        return
    except InputError as error:
        line = str(error)
    except KeyboardInterrupt:
        line = f"interrupted; {unfinished}"
    except BrokenPipeError:  # the reader of our output has gone, as in "| head"
        sys.stdout = open(os.devnull, "w")
        sys.exit(1)
    except OSError as error:
        room = "; make room there" if error.errno == errno.ENOSPC else ""
        line = f"{error.filename or 'writing'}: {error.strerror or error}{room}; {unfinished}"
    sys.exit(f"{program}: {one_line(line)}")


def end_at_once() -> None:
    """Spare the end of this process a search for garbage in what torch and fairseq are: one to two seconds."""
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)


def did_you_mean(name: str, known: Iterable[str], any_case: bool = False) -> str:
    """What an error says where one of the known names is near; ``any_case``: in upper and lower case it is the same."""
    by_key = {each.lower() if any_case else each: each for each in known}
    near = get_close_matches(name.lower() if any_case else name, by_key, 1)
    return f"did you mean {by_key[near[0]]}? " if near else ""


def reason_of(error: Exception, most: int | None = 200) -> str:
    """What another library says of an error, on one line and cut to ``most`` characters, for a line of ours."""
    return " ".join(str(error).split())[:most]


def one_line(message: str) -> str:
    """A message on one line, see ``shown``."""
    return shown(" ".join(message.split()))


def shown(text: str) -> str:
    """What a terminal may be sent of a text from a file: ``escaped`` and ``shortened``."""
    return escaped(shortened(text))


def escaped(text: str) -> str:
    """A text with control characters as Python writes them; raw, they would be commands to a terminal."""
    return text if text.isprintable() else "".join(s if s.isprintable() else repr(s)[1:-1] for s in text)


def shortened(text: str) -> str:
    """Beginning and end of a text that is longer than ``LONGEST_SHOWN``."""
    half = LONGEST_SHOWN // 2
    return text if len(text) <= LONGEST_SHOWN else f"{text[: half - 5]} ... {text[-half:]}"
