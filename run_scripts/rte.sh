#!/usr/bin/env bash
# RTE with the paper's settings: bash run_scripts/rte.sh [--method M] [--lr LR] [--seed S] ... (--help lists them)
exec bash "$(dirname "${BASH_SOURCE[0]}")/task.sh" RTE "$@"
