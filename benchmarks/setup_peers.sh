#!/usr/bin/env bash
# Installs the libraries that benchmarks/step_time.py compares with into benchmarks/.peers (about 100 MB), apart from
# .venv, as adapters needs an older transformers. torch and numpy stay those of .venv. Needs PyPI.
#   bash benchmarks/setup_peers.sh                  # with .venv (bash run_scripts/setup_env.sh makes it)
#   PYTHON=python3 bash benchmarks/setup_peers.sh
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf benchmarks/.peers.new
"${PYTHON:-.venv/bin/python}" -m pip install --quiet --no-deps --target benchmarks/.peers.new -r benchmarks/requirements-peers.txt
rm -rf benchmarks/.peers
mv benchmarks/.peers.new benchmarks/.peers # complete or not there at all
echo "benchmarks/.peers is ready: python benchmarks/step_time.py"
