"""Files, steps and child processes of the quick start.

A step makes one product (a file or folder) from settings. `PRODUCT.settings.json` beside it is
written last: a product is done when its record equals the settings asked for now, so changed
settings, or an interruption, make the step run again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Sequence

from preprocess.errors import InputError

from .. import ROOT

ERROR_LINE = re.compile(r"^[\w.]*(Error|Exception)\b|\berror:")
Settings = Dict[str, Any]


def say(message: str) -> None:
    print(message, flush=True)


# --- files ---------------------------------------------------------------------------------------


def write_text(path: Path, text: str) -> None:
    """Writes the whole file, or leaves the old one as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(text.encode("utf-8"))
    os.replace(temporary, path)


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


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to fill, which takes the place of `path` if nothing goes wrong."""
    temporary, old = path.with_name(path.name + ".tmp"), path.with_name(path.name + ".old")
    remove(temporary)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        remove(old)
        if path.exists():
            os.replace(path, old)
        os.replace(temporary, path)
        remove(old)
    finally:
        remove(temporary)


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
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        return
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(str(folder / ".lock"), os.O_RDWR | os.O_CREAT)
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


def child_environment() -> dict[str, str]:
    """Threads that wait yield their core: spinning ones make training 5 times slower on a busy CPU."""
    return {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}


def _stop(child: subprocess.Popen) -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(timeout=15)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _failure(command: Sequence[str], code: int, lines: Sequence[str], hint: str) -> str:
    how = f"was killed by signal {-code}" if code < 0 else f"failed (exit status {code})"
    errors = [line for line in lines if ERROR_LINE.search(line)] or [ln for ln in lines if ln]
    return f"{Path(command[0]).name} {how}: {errors[-1] if errors else 'no output'}{hint}"


def run_visible(command: Sequence[str], what: str) -> None:
    """Runs a child that writes to our terminal itself."""
    child = subprocess.Popen(list(command), cwd=str(ROOT), close_fds=False)
    try:
        code = child.wait()
    finally:
        _stop(child)
    if code != 0:
        raise InputError(f"{what} failed (exit status {code}), see the lines above")


def run_logged(command: Sequence[str], log: Path, on_line: Callable[[str], None]) -> None:
    """Runs a child whose lines go to the end of `log` and to `on_line` as they come."""
    log.parent.mkdir(parents=True, exist_ok=True)
    last: deque[str] = deque(maxlen=200)
    with open(log, "a", encoding="utf-8") as file:
        child = subprocess.Popen(
            list(command),
            cwd=str(ROOT),
            env=child_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
            encoding="utf-8",
            errors="replace",
            close_fds=False,
        )
        try:
            assert child.stdout is not None
            for line in child.stdout:
                file.write(line)
                file.flush()
                last.append(line.strip())
                on_line(line.rstrip("\n"))
            code = child.wait()
        finally:
            _stop(child)
    if code != 0:
        raise InputError(_failure(command, code, list(last), f" (all of it: {log})"))
