#!/usr/bin/env bash
# Makes .venv at the root of the repository: torch, fairseq, the tools of the tests, and this
# project as an editable install (fairseq refuses a second copy of a --user-dir package).
#
#   bash run_scripts/setup_env.sh             # the first time 2 to 10 minutes, afterwards instant
#   PYTHON=python3.12 bash run_scripts/setup_env.sh
#
# Needs Python >= 3.10 with its headers, a C++ compiler, and a package index that pip can reach.
# Interrupt it whenever you like: the next call goes on, or starts over where pip was cut short.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$ROOT/.venv
REQUIREMENTS=$ROOT/run_scripts/requirements.txt
STAMP=$VENV/.setup_done        # written last: hash of all that the environment depends on
DIRTY=$VENV/.pip_running       # there while pip changes the environment: found later = cut short
WHEELS=$VENV/wheels            # our own build of fairseq
LOG=$VENV/pip.log

say() { printf 'setup_env.sh: %s\n' "$*"; }
die() { printf 'setup_env.sh: error: %s\n' "$*" >&2; exit 1; }
interrupted() { say "interrupted; run the same command again to go on" >&2; exit "$1"; }
trap 'interrupted 130' INT
trap 'interrupted 143' TERM

suits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }

find_python() {  # prints the interpreter to use
  local name
  if [ -n "${PYTHON:-}" ]; then
    suits "$PYTHON" || die "PYTHON=$PYTHON is not a Python >= 3.10; name another interpreter"
    printf '%s\n' "$PYTHON"; return
  fi
  for name in python3.11 python3 python3.12 python3.13 python3.10 python; do
    if suits "$name"; then printf '%s\n' "$name"; return; fi
  done
  die "no Python >= 3.10 found; install one, or name it: PYTHON=/path/to/python3.11"
}

find_compiler() {
  local name
  for name in "${CXX:-}" c++ g++ clang++; do
    if [ -n "$name" ] && command -v "${name%% *}" >/dev/null 2>&1; then return; fi
  done
  die "no C++ compiler (c++, g++, clang++ or CXX) found, fairseq needs one; e.g. install g++"
}

find_headers() {  # $1: interpreter
  "$1" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
    die "Python.h of $1 not found, fairseq needs it; e.g. install python3-dev"
}

fingerprint() {  # what the environment depends on; the path, because a .venv cannot be moved
  { cat "$REQUIREMENTS" "$ROOT/setup.py" "${BASH_SOURCE[0]}"; printf '%s\n' "$ROOT"; } |
    cksum | tr ' ' '-'
}

finished() { [ -x "$VENV/bin/python" ] && [ "$(cat "$STAMP" 2>/dev/null)" = "$1" ]; }

usable() {  # an environment of the right place and version that pip did not leave half-changed
  [ -x "$VENV/bin/python" ] && [ ! -e "$DIRTY" ] && suits "$VENV/bin/python" &&
    "$VENV/bin/python" -m pip --version >/dev/null 2>&1 &&
    head -n 3 "$VENV/bin/pip" 2>/dev/null | grep -qF "$VENV/bin/python"
}

pip_call() {  # pip with its progress on the terminal; one line that says why it failed
  local status=0
  : >"$LOG"
  "$VENV/bin/python" -m pip --disable-pip-version-check --log "$LOG" "$@" || status=$?
  if [ "$status" -eq 0 ] || [ "$status" -gt 128 ]; then return "$status"; fi
  die "'pip $1' failed, see above; check the network, the proxy and 'pip config list' (log: .venv/pip.log)"
}

pip_install() {  # a killed pip leaves DIRTY behind; one that fails by itself cleans up
  : >"$DIRTY"
  local status=0
  (pip_call install --constraint "$REQUIREMENTS" "$@") || status=$?
  [ "$status" -gt 128 ] && interrupted "$status"
  rm -f "$DIRTY"
  return "$status"
}

pin() { grep -i "^$1==" "$REQUIREMENTS"; }

create() {
  local python
  python=$(find_python)
  find_compiler
  find_headers "$python"
  say "making .venv with $python"
  rm -rf "$VENV"
  "$python" -m venv "$VENV" || die "'$python -m venv' failed; e.g. install python3-venv"
}

install_fairseq() {
  [ -z "$("$VENV/bin/python" -m pip freeze | grep -ix "$(pin fairseq-fixed)")" ] || return 0
  find_compiler
  say "building fairseq from source: minutes of compiling with little output"
  mkdir -p "$WHEELS"
  # without debug symbols, for which Python's own flags ask: a third less to compile
  (CPPFLAGS="${CPPFLAGS:-} -g0" pip_call wheel --no-build-isolation --no-deps --wheel-dir "$WHEELS" "$(pin fairseq-fixed)") ||
    exit $?
  pip_install --no-deps --find-links "$WHEELS" "$(pin fairseq-fixed)"
}

main() {
  local wanted
  wanted=$(fingerprint)
  if finished "$wanted"; then return; fi
  if command -v flock >/dev/null 2>&1; then
    exec 9>"$ROOT/.venv.lock"
    flock -n 9 || { say "another call is at work, waiting for it"; flock 9; }
    if finished "$wanted"; then return; fi
  fi
  usable || create
  rm -f "$STAMP"
  say "1/4 tools to build with"
  pip_install --retries 1 "$(pin setuptools)" "$(pin wheel)" "$(pin cython)"
  say "2/4 torch"
  pip_install "$(pin torch)" numpy  # whose version depends on Python's
  say "3/4 fairseq"
  install_fairseq
  say "4/4 the other requirements, and this project (editable)"
  # without fairseq, whose dependencies would bring torchaudio
  pip_install --no-warn-conflicts --requirement <(grep -v '^fairseq-fixed' "$REQUIREMENTS")
  pip_install --no-deps --no-build-isolation --editable "$ROOT"
  printf '%s\n' "$wanted" >"$STAMP.tmp"
  mv "$STAMP.tmp" "$STAMP"
  say "done: .venv is ready"
}

main "$@"
