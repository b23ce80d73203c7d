#!/usr/bin/env bash
# MR with the paper's settings: bash run_scripts/mr.sh [--method M] [--lr LR] [--seed S] ... (--help lists them)
exec bash "$(dirname "${BASH_SOURCE[0]}")/task.sh" MR "$@"
