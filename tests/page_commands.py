"""The commands of the pages: README's are executed; those of the others are parsed by the programs that they name."""

import contextlib
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

from preprocess.tasks import TASKS
from run_scripts.run import preflight
from tests.folders import ROOT, write_backbone, write_folder

SMALLER = {  # the beginning of a command -> what is added to it, so that it ends soon and needs neither GPU nor network
    "bash run_scripts/quickstart.sh": "--train-examples 40 --valid-examples 16 --test-examples 16 --max-epoch 1 --cpu",
    "bash tests/run.sh": "--collect-only -q tests/methods/test_counts.py",
    "fairseq-train": "--max-update 2 --cpu --log-format json",
    "fairseq-validate": "--cpu --log-format json",
    "python -m fairseq_idpg.predict": "--cpu",
}
SERVER, SERVED_AT = "python -m fairseq_idpg.serve", "http://127.0.0.1:8000"
# for machines without it: curl URL -H HEADER -d BODY
CURL = """curl() { python -c '
import sys
from urllib.request import Request, urlopen
url, _, header, _, body = sys.argv[1:]
print(urlopen(Request(url, body.encode(), dict([header.split(": ")]))).read().decode())
' "$@"; }
"""
# the project's own files in a command, and the --user-dir
OURS = r"(?<![\w/.])((?:run_scripts|tests)/[\w./-]+\.(?:py|sh)|fairseq_idpg(?= --task))"


def commands(text: str) -> list[str]:
    """The commands of a page's bash blocks, without comments."""
    blocks = re.findall(r"```(?:bash|sh)\n(.*?)```", text, flags=re.DOTALL)
    lines = [line.split("  #")[0] for line in "".join(blocks).replace("\\\n", " ").splitlines()]
    return [" ".join(line.split()) for line in lines if line.strip()]


# --- executed ------------------------------------------------------------------------------------


def run_page(text: str, place: Path, after: int = 0) -> dict[str, str]:
    """The output of each command ``after`` the first few, executed in ``place`` instead of the project's root.

    A server runs until the page has come to its end; others ask it at the port that it has found.
    """
    said, address = {}, SERVED_AT
    with contextlib.ExitStack() as servers:
        for command in commands(text)[after:]:
            if command.startswith(SERVER):
                said[command] = servers.enter_context(served(command, place))
                address = said[command].split()[0]
            else:
                said[command] = shell(command.replace(SERVED_AT, address), place)
    return said


@contextlib.contextmanager
def served(command: str, place: Path) -> Iterator[str]:
    """What a server says when it is ready."""
    executed = ["bash", "-c", f"exec {command} --port 0 --cpu"]
    with subprocess.Popen(executed, cwd=place, env=environment(), stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline()
        finally:
            server.terminate()
    assert server.returncode == 0


def shell(command: str, place: Path) -> str:
    """Its output, as after "source .venv/bin/activate"."""
    added = next((words for beginning, words in SMALLER.items() if command.startswith(beginning)), "")
    executed = re.sub(OURS, rf"{ROOT}/\1", f"{command} {added}")
    ran = ["bash", "-c", executed if shutil.which("curl") else CURL + executed]
    done = subprocess.run(ran, cwd=place, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, f"{executed}\n{(done.stdout + done.stderr)[-3000:]}"
    return done.stdout + done.stderr


def environment() -> dict[str, str]:
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


# --- parsed --------------------------------------------------------------------------------------

RECORD = (
    "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]), file=open(os.environ['CALLS'], 'a'))"
)
# Programs that do more than parse, and what is added to them; a sweep and a training end before they look at data.
FURTHER = {
    "benchmarks/step_time.py": ["--list"],
    "benchmarks/gpu.py": ["--dry-run"],
    "-m preprocess few-shot": [],
    "-m run_scripts.sweep": [],
    "-m run_scripts.train": [],
}


class Parsed(BaseException):
    """A command has taken its arguments."""


def named_files(place: Path) -> None:
    """Puts what the pages name into ``place``: the project's scripts, empty folders and files, published records."""
    for name in ("run_scripts", "benchmarks"):
        (place / name).symlink_to(ROOT / name)
    for task in (*TASKS, "topics", "MRPC-accuracy"):
        for parent in ("data", "data/short", "data/tests", "efl"):
            (place / parent / f"{task}-bin").mkdir(parents=True)
    for task in ("RTE", "CR", "topics"):
        write_folder(place / "data" / f"{task}-bin", splits={"train": 2100, "valid": 3})
    (place / "quickstart" / "reviews-bin").mkdir(parents=True)
    write_backbone(place / "quickstart" / "backbone" / "model.pt")
    for name in ("roberta.large", "roberta.large.mnli"):
        write_backbone(place / "checkpoints" / name / "model.pt")
    (place / "checkpoints" / "roberta.large" / "dict.txt").touch()  # of a download that is whole
    (place / "checkpoints" / "mnli-0.pt").touch()
    for file in ("encoder.json", "vocab.bpe", "dict.txt"):
        (place / "checkpoints" / "gpt2_bpe").mkdir(exist_ok=True)
        (place / "checkpoints" / "gpt2_bpe" / file).touch()
    for file in (ROOT / "checkpoints").glob("*.[ps][yh]"):
        (place / "checkpoints" / file.name).symlink_to(file)


def python_calls(text: str, place: Path) -> list[tuple[list[str], dict[str, str]]]:
    """(arguments, environment) of each call of Python that a page's commands make, themselves or in a script.

    The Python of the shell is one that notes them and does nothing.
    """
    (place / "bin").mkdir()
    for name in ("python", "python3"):
        (place / "bin" / name).write_text(f'#!/bin/sh\nexec \'{sys.executable}\' -IS -c "{RECORD}" "$@"\n')
        (place / "bin" / name).chmod(0o755)
    python = {"PYTHON": "python", "CALLS": str(place / "calls"), "FAIRSEQ_MODELS_URL": "http://127.0.0.1:9"}
    path = os.pathsep.join([str(place / "bin"), os.environ["PATH"]])
    for command in commands(text):
        done = subprocess.run(
            ["bash", "-c", command.replace("gpu.sh", "gpu.sh --dry-run")],
            cwd=place,
            env={**os.environ, **python, "PATH": path},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    calls = map(json.loads, (place / "calls").read_text().splitlines())
    return [(words, variables) for words, variables in calls if words[0] != "-c"]


def parse(words: list[str], variables: dict[str, str], monkeypatch) -> None:
    """Runs a program in this process until it has parsed its arguments, or FURTHER."""

    def stop(*_):
        raise Parsed

    parse_args = ArgumentParser.parse_args
    added = next((more for program, more in FURTHER.items() if " ".join(words).startswith(program)), None)
    with monkeypatch.context() as patch:
        for name in ("PARTS", "DTYPES", "CASES"):
            patch.setenv(name, variables.get(name, ""))
        patch.setattr(preflight, "check", stop)
        if added is None:
            patch.setattr(ArgumentParser, "parse_args", lambda *given: stop(parse_args(*given)))
        patch.syspath_prepend(str(ROOT / "benchmarks"))  # as the interpreter does
        module = words[0] == "-m"
        patch.setattr(sys, "argv", [*words[module:], *(added or [])])
        before = signal.getsignal(signal.SIGTERM)
        with contextlib.suppress(Parsed):
            if module:
                runpy.run_module(words[1], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(words[0], run_name="__main__")
            assert added is not None, f"{words} did not parse its arguments"
        signal.signal(signal.SIGTERM, before)
