#!/usr/bin/env bash
# Installs the libraries that benchmarks/step_time.py compares with into benchmarks/.peers (about 100 MB), apart from
# .venv, as adapters needs an older transformers. torch and numpy stay those of .venv. Needs PyPI.
#   bash benchmarks/setup_peers.sh
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
if [ ! -x "$python" ]; then
    echo "$python is missing: make the environment first (bash run_scripts/setup_env.sh), or give PYTHON=/path/to/its/python" >&2
    exit 1
fi
python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python")
new=benchmarks/.peers.new
rm -rf "$new"
"$python" -m pip install --quiet --no-deps --target "$new" -r benchmarks/requirements-peers.txt
rm -rf benchmarks/.peers
mv "$new" benchmarks/.peers # complete or not there at all
echo "benchmarks/.peers is ready: python benchmarks/step_time.py"
