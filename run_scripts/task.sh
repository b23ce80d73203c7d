#!/usr/bin/env bash
# What the scripts of the tasks call: bash run_scripts/task.sh TASK [options]
#   bash run_scripts/rte.sh --method m-idpg-phm --lr 5e-4 --seed 1 [any option of fairseq-train]
#   bash run_scripts/rte.sh --k 100 --backbone checkpoints/roberta.large.mnli/model.pt      # few-shot
#   bash run_scripts/rte.sh --help
# Paths are seen from where it is called.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/python.sh"
need_python
exec "$PYTHON" -m run_scripts.train "$@"
