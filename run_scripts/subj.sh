#!/usr/bin/env bash
# SUBJ with the paper's settings: bash run_scripts/subj.sh [--method M] [--lr LR] [--seed S] ... (--help lists them)
exec bash "$(dirname "${BASH_SOURCE[0]}")/task.sh" SUBJ "$@"
