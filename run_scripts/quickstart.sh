#!/usr/bin/env bash
# From nothing to a table of test accuracies on movie reviews; see run_scripts/quickstart.py.
#   bash run_scripts/quickstart.sh [--help]
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bash "$ROOT/run_scripts/setup_env.sh"
exec "$ROOT/.venv/bin/python" "$ROOT/run_scripts/quickstart.py" "$@"
