#!/usr/bin/env bash
# MNLI with the paper's settings: bash run_scripts/mnli.sh [--method M] [--lr LR] [--seed S] ... (--help lists them)
exec bash "$(dirname "${BASH_SOURCE[0]}")/task.sh" MNLI "$@"
