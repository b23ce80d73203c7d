# Sourced by other scripts: $PYTHON is that of .venv, or the one on the PATH, and finds this repository's packages
# first, whatever folder it is called in. Threads that spin while they wait would slow a busy machine down.
ROOT=$(CDPATH="" cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PYTHON=$ROOT/.venv/bin/python
[ -x "$PYTHON" ] || PYTHON=python
export PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH} PYTHONSAFEPATH=1 OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-PASSIVE}
