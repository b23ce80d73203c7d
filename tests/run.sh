#!/usr/bin/env bash
# Sets the environment up, checks style and types, runs the whole test suite, a process on each core up to 4;
# arguments go to pytest, which then runs in one process unless they say otherwise:
#   bash tests/run.sh -k phm -x
set -uo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
trap 'exit 130' INT

bash run_scripts/setup_env.sh || exit $?

style=0
.venv/bin/ruff check --output-format concise . || style=1
.venv/bin/ruff format --check . || style=1
.venv/bin/mypy || style=1
if [ "$style" -ne 0 ]; then
  echo "tests/run.sh: ruff or mypy found faults (above): this run fails whatever pytest says below" >&2
fi

[ "$#" -gt 0 ] || set -- --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
.venv/bin/python -m pytest "$@" || exit $?
exit "$style"
