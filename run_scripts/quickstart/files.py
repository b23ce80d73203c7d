"""Files, steps and child processes of the quick start.

A step makes one product (a file or folder) from settings. `PRODUCT.settings.json` beside it is
written last: a product is done when its record equals the settings asked for now, so changed
settings, or an interruption, make the step run again.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from preprocess.errors import InputError
from preprocess.writing import write_text

from .. import ROOT
from ..run.fairseq_train import follow, stop

ERROR_LINE = re.compile(r"^[\w.]*(Error|Exception)\b|\berror:")
Settings = dict[str, Any]


def say(message: str) -> None:
    print(message, flush=True)


# --- files ---------------------------------------------------------------------------------------


def write_json(path: Path, value: object) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def read_json(path: Path) -> Any:
    """The value in a JSON file; None when it is missing or cut short."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.exists() or path.is_symlink():
        path.unlink()


# --- steps ---------------------------------------------------------------------------------------


def record_of(product: Path) -> Path:
    return product.with_name(product.name + ".settings.json")


def is_done(product: Path, settings: Settings) -> bool:
    return product.exists() and read_json(record_of(product)) == settings


def run_step(title: str, product: Path, settings: Settings, build: Callable[[], None]) -> None:
    """Builds `product` unless it was built from these very settings."""
    if is_done(product, settings):
        say(f"== {title}: done before")
        return
    say(f"== {title}")
    remove(record_of(product))
    build()
    write_json(record_of(product), settings)


def lock(folder: Path) -> None:
    """One quick start at a time per folder; children hold the lock too, should we be killed."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise InputError(f"--out {folder}: another quick start is at work there; wait for it or name another") from None
    os.set_inheritable(handle, True)


# --- children ------------------------------------------------------------------------------------


def tool(name: str) -> str:
    """The path of a command installed beside this interpreter, e.g. fairseq-train."""
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        raise InputError(f"{name} not found beside {sys.executable}; run quickstart.sh")
    return str(path)


def run_visible(command: Sequence[str], what: str) -> None:
    """Runs a child that writes to our terminal itself."""
    child = subprocess.Popen(command, cwd=ROOT, close_fds=False)
    try:
        code = child.wait()
    finally:
        stop(child)
    if code != 0:
        raise InputError(f"{what} failed (exit status {code}), see the lines above")


def run_logged(command: Sequence[str], log: Path, on_line: Callable[[str], None]) -> None:
    """Runs a child whose lines go to the end of `log` and to `on_line` as they come."""
    log.parent.mkdir(parents=True, exist_ok=True)
    last: deque[str] = deque(maxlen=200)
    with open(log, "a", encoding="utf-8") as file:

        def keep(line: str) -> None:
            file.write(line)
            file.flush()
            last.append(line.strip())
            on_line(line.rstrip("\n"))

        code = follow(command, keep, ROOT)
    if code != 0:
        how = f"was killed by signal {-code}" if code < 0 else f"failed (exit status {code})"
        lines = [line for line in last if ERROR_LINE.search(line)] or [line for line in last if line] or ["no output"]
        raise InputError(f"{Path(command[0]).name} {how}: {lines[-1]} (all of it: {log})")
