#!/usr/bin/env bash
# CR with the paper's settings: bash run_scripts/cr.sh [--method M] [--lr LR] [--seed S] ... (--help lists them)
exec bash "$(dirname "${BASH_SOURCE[0]}")/task.sh" CR "$@"
