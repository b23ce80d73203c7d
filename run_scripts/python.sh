# Sourced by other scripts. $PYTHON is that of .venv, or else the one on the PATH, and finds this repository's packages
# first, in whatever folder it is called. Its threads sleep while they wait, as spinning slows a busy machine down.
ROOT=$(CDPATH="" cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PYTHON=$ROOT/.venv/bin/python
[ -x "$PYTHON" ] || PYTHON=python
need_python() {  # one that has fairseq
  local found='import importlib.util, sys; sys.exit(importlib.util.find_spec("fairseq") is None)'
  [ "$PYTHON" != python ] || python -c "$found" >/dev/null 2>&1 || {
    echo "${0##*/}: $ROOT/.venv is not there, nor a python with fairseq: bash run_scripts/setup_env.sh makes it" >&2
    exit 1
  }
}
export PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH} PYTHONSAFEPATH=1 OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}
