#!/usr/bin/env bash
# From nothing to a table of test accuracies on movie reviews; see run_scripts/quickstart.py.
#   bash run_scripts/quickstart.sh [--help]
set -euo pipefail
unset CDPATH  # by which cd prints what it finds
HERE=$(dirname "${BASH_SOURCE[0]}")
bash "$HERE/setup_env.sh"
source "$HERE/python.sh"
exec "$PYTHON" -m run_scripts.quickstart "$@"
