#!/usr/bin/env bash
# MPQA with the paper's settings: bash run_scripts/mpqa.sh [--method M] [--lr LR] [--seed S] ... (--help lists them)
exec bash "$(dirname "${BASH_SOURCE[0]}")/task.sh" MPQA "$@"
