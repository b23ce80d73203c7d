#!/usr/bin/env bash
# QNLI with the paper's settings: bash run_scripts/qnli.sh [--method M] [--lr LR] [--seed S] ... (--help lists them)
exec bash "$(dirname "${BASH_SOURCE[0]}")/task.sh" QNLI "$@"
