#!/usr/bin/env bash
# SST-2 with the paper's settings: bash run_scripts/sst-2.sh [--method M] [--lr LR] [--seed S] ... (--help lists them)
exec bash "$(dirname "${BASH_SOURCE[0]}")/task.sh" SST-2 "$@"
