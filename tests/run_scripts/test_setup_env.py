"""setup_env.sh with a stand-in for Python and pip: what it asks for, and what it repeats."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "run_scripts/setup_env.sh"
FAKE = """#!/bin/sh
# stands in for python; FAKE_FAIL, FAKE_KILL, FAKE_SLEEP: the word of a pip call at which to fail,
# be killed or wait for Ctrl-C, which pip answers with a plain exit status 1
case "$1 $2" in
  "-m venv")
    echo "venv" >>"$CALLS"; mkdir -p "$3/bin"; cp "$0" "$3/bin/python"
    echo "#!$3/bin/python" >"$3/bin/pip" ;;
  "-m pip")
    [ "$3" = --version ] && exit 0
    echo "$*" >>"$CALLS"
    log=""; previous=""
    for word in "$@"; do
      [ "$previous" = --log ] && log=$word
      if [ "$word" = "$FAKE_FAIL" ]; then echo "$FAKE_LOG" >"$log"; exit 1; fi
      if [ "$word" = "$FAKE_KILL" ]; then kill -9 $$; fi
      if [ "$word" = "$FAKE_SLEEP" ]; then
        trap 'exit 1' INT; echo waiting; for i in $(seq 99); do sleep 1; done
      fi
      previous=$word
    done ;;
  "-c import sys;"*) [ -z "$FAKE_OLD" ] ;;
  "-c import os"*) exit 0 ;;
  -c*) exit 1 ;;  # fairseq is not installed yet
esac
"""


class Tree:
    """A copy of the scripts, and the calls they made of the stand-in."""

    def __init__(self, root: Path):
        self.root, self.calls_file = root, root / "calls.txt"
        (root / "run_scripts").mkdir()
        for name in (SCRIPT, "run_scripts/requirements.txt", "setup.py"):
            shutil.copy(ROOT / name, root / name)
        for name in ("fake-python", "c++"):
            (root / name).write_text(FAKE)
            (root / name).chmod(0o755)

    def environment(self, **changes: str) -> dict[str, str]:
        own = {
            "CALLS": str(self.calls_file),
            "PYTHON": str(self.root / "fake-python"),
            "PATH": f"{self.root}{os.pathsep}{os.environ['PATH']}",
        }
        return {**os.environ, **own, **changes}

    def run(self, **changes: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", str(self.root / SCRIPT)],
            env=self.environment(**changes),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )

    def calls(self) -> list[str]:
        calls = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        self.calls_file.write_text("")
        return calls


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_second_call_is_instant(tree):
    assert tree.run().returncode == 0
    assert tree.calls()[0] == "venv"
    again = tree.run()
    assert (again.returncode, again.stdout, tree.calls()) == (0, "", [])


def test_torch_is_pinned_in_every_install(tree):
    tree.run()
    installs = [call for call in tree.calls() if " install " in call]
    assert len(installs) == 5
    for call in installs:
        assert "--constraint" in call and "requirements.txt" in call
    requirements = (tree.root / "run_scripts/requirements.txt").read_text()
    assert "torch==2.13.0\n" in requirements
    assert installs[-1].endswith(f"--no-deps --no-build-isolation --editable {tree.root}")


def test_changed_requirements_are_installed_into_the_same_environment(tree):
    tree.run()
    tree.calls()
    with open(tree.root / "run_scripts/requirements.txt", "a") as file:
        file.write("colorama\n")
    assert tree.run().returncode == 0
    calls = tree.calls()
    assert "venv" not in calls and len(calls) == 6


@pytest.mark.parametrize(("how", "rebuilt"), [({"FAKE_FAIL": "wheel"}, False), ({"FAKE_KILL": "torch==2.13.0"}, True)])
def test_failed_pip_is_continued_and_killed_pip_is_rebuilt(tree, how, rebuilt):
    result = tree.run(**how, FAKE_LOG="error: subprocess-exited-with-error")
    assert result.returncode != 0
    assert ("error: 'pip wheel' could not build a package" in result.stdout) != rebuilt
    tree.calls()
    assert tree.run().returncode == 0
    assert ("venv" in tree.calls()) == rebuilt


def test_interrupted_pip_is_rebuilt(tree):
    child = subprocess.Popen(
        ["bash", str(tree.root / SCRIPT)],
        env=tree.environment(FAKE_SLEEP="torch==2.13.0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert child.stdout is not None
    for line in child.stdout:
        if line == "waiting\n":
            os.killpg(child.pid, signal.SIGINT)  # as a terminal does
    assert child.wait(timeout=300) == 130
    tree.calls()
    assert tree.run().returncode == 0
    assert tree.calls()[0] == "venv"


def test_moved_tree_is_rebuilt(tree, tmp_path):
    tree.run()
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.move(str(tree.root / ".venv"), str(moved / ".venv"))
    other = Tree(moved)
    assert other.run().returncode == 0
    assert other.calls()[0] == "venv"


def test_what_is_missing_is_named(tree, tmp_path):
    """With a PATH of the few commands that come before the check of a compiler."""
    log = "ERROR: Could not find a version that satisfies the requirement (from versions: none)"
    result = tree.run(FAKE_FAIL="install", FAKE_LOG=log)
    assert result.returncode == 1 and "pip cannot reach its package index" in result.stdout
    shutil.rmtree(tree.root / ".venv")
    commands = tmp_path / "commands"
    commands.mkdir()
    for name in ("bash", "dirname", "cat", "cksum", "tr", "rm", "sh", "flock"):
        if found := shutil.which(name):
            (commands / name).symlink_to(found)
    for said, changes in (("Python >= 3.10", {"FAKE_OLD": "yes"}), ("C++", {"PATH": str(commands), "CXX": ""})):
        result = tree.run(**changes)
        assert result.returncode == 1 and said in result.stdout and not (tree.root / ".venv").exists()


def test_two_calls_at_once(tree):
    if shutil.which("flock") is None:
        pytest.skip("needs flock")
    command = ["bash", str(tree.root / SCRIPT)]
    both = [subprocess.Popen(command, env=tree.environment()) for _ in range(2)]
    assert [child.wait(timeout=300) for child in both] == [0, 0]
    assert tree.calls().count("venv") == 1


def test_transformers_beside_fairseq():
    """Nothing that fairseq brings keeps transformers' models from being imported."""
    pytest.importorskip("transformers")
    imports = "import fairseq; from transformers import RobertaForMaskedLM"
    assert subprocess.run([sys.executable, "-c", imports]).returncode == 0
