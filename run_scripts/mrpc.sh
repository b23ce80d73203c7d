#!/usr/bin/env bash
# MRPC with the paper's settings: bash run_scripts/mrpc.sh [--method M] [--lr LR] [--seed S] ... (--help lists them)
exec bash "$(dirname "${BASH_SOURCE[0]}")/task.sh" MRPC "$@"
