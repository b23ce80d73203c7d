#!/usr/bin/env bash
# QQP with the paper's settings: bash run_scripts/qqp.sh [--method M] [--lr LR] [--seed S] ... (--help lists them)
exec bash "$(dirname "${BASH_SOURCE[0]}")/task.sh" QQP "$@"
