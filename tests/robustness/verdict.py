"""What the end of a command on damaged files is worth."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Mapping, Sequence

from .server import HUNG
from .values import CANARY

IDENTICAL, CLEAR, ANOTHER, WARNED = "identical", "clear error", "another file", "warned"
GOOD = (IDENTICAL, CLEAR, ANOTHER, WARNED)
TRACEBACK, UNCLEAR, LEFT, HANG = "traceback", "unclear error", "left behind", "hang"
CHANGED, RAN = "changed without a word", "ran code"
BAD = (TRACEBACK, UNCLEAR, LEFT, HANG, CHANGED, RAN)
OURS = re.compile(r"^(fairseq_idpg|preprocess|run_scripts|convert_hf): ")
OPTION = re.compile(r"--[a-z]")
ADVICE = "weights_only"  # torch's messages tell how to switch its protection off
TRACE = "Traceback (most recent call last)"
Files = Mapping[str, "tuple[int, int]"]


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below a folder, with its size and the time of its last change."""
    files = ((path, path.lstat()) for path in folder.rglob("*") if not path.is_dir())
    return {str(path.relative_to(folder)): (status.st_size, status.st_mtime_ns) for path, status in files}


@dataclass(frozen=True)
class End:
    """How a command ended: ``status``, what it printed, and the files before and after."""

    status: int | str
    out: str
    err: str
    before: Files
    after: Files

    @property
    def last_line(self) -> str:
        """The last that it said, errors first."""
        lines = [line for text in (self.out, self.err) for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else ""

    def touched(self, allowed: Sequence[str] = ()) -> list[str]:
        """Files that are new, changed or gone."""
        names = sorted(name for name in {*self.before, *self.after} if self.before.get(name) != self.after.get(name))
        return [name for name in names if not any(re.fullmatch(pattern, name) for pattern in allowed)]


def error_verdict(end: End, damaged: str, names: Sequence[str] = (), allowed: Sequence[str] = ()) -> tuple[str, str]:
    """(verdict, reason) of a command that failed.

    Args:
        damaged: the path of the damaged file within the case; an error names it, the folder it is in, or an option.
        names: what it may name instead.
        allowed: patterns of files that may be there after an error.
    """
    both = end.out + end.err
    if end.status == HUNG:
        return HANG, "no end within the limit"
    if TRACE in both:
        return TRACEBACK, raised(both)
    if isinstance(end.status, int) and end.status < 0:
        return TRACEBACK, f"signal {-end.status}"
    ours = [line for line in both.splitlines() if OURS.match(line)]
    if len(ours) != 1 or end.last_line != ours[0]:
        return UNCLEAR, f"{len(ours)} lines of ours; the last line: {end.last_line}"
    if ADVICE in both:
        return UNCLEAR, f"torch's advice: {ours[0]}"
    named = [*names, *(name for name in Path(damaged).parts if name not in ("data", "raw"))]
    if not OPTION.search(ours[0]) and not any(name in ours[0] for name in named):
        return UNCLEAR, f"names no file and no option: {ours[0]}"
    touched = end.touched(allowed)
    if touched:
        return LEFT, f"{', '.join(touched[:4])} after: {ours[0]}"
    return CLEAR, ours[0]


def raised(text: str) -> str:
    """What the last traceback of a text says at its end, before anything that the message itself goes on with."""
    lines = text[text.rindex(TRACE) :].splitlines()[1:]
    return next((line for line in lines if line.strip() and not line.startswith((" ", "\t"))), lines[-1])


def judge(
    end: End,
    damaged: str,
    answer: str | None,
    expected: str,
    valid: Callable[[], bool],
    warning: str | None = None,
    names: Sequence[str] = (),
    allowed: Sequence[str] = (),
) -> tuple[str, str]:
    """(verdict, reason) of a case.

    Args:
        answer: of the command; None if it failed.
        expected: of the command on undamaged files.
        valid: whether the damaged file is a valid one that says something else; asked only where the command took it,
            as it reads the file here.
        warning: what a warning looks like that is enough for another answer.
    """
    if any(Path(name).name == CANARY for name in end.after):
        return RAN, end.last_line
    if end.status != 0 or answer is None:
        return error_verdict(end, damaged, names, allowed)
    if TRACE in end.out + end.err:
        return TRACEBACK, raised(end.out + end.err)
    if answer == expected:
        return IDENTICAL, ""
    if warning is not None and re.search(warning, end.out + end.err):
        return WARNED, re.search(f".*({warning}).*", end.out + end.err).group()
    if valid():
        return ANOTHER, ""
    return CHANGED, f"{_difference(answer, expected)} | {end.last_line}"


def _difference(answer: str, expected: str) -> str:
    """The first line that differs."""
    pairs = zip([*answer.splitlines(), "end"], [*expected.splitlines(), "end"])
    return next((f"{a[:60]!r} for {b[:60]!r}" for a, b in pairs if a != b), "")
