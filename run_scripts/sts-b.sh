#!/usr/bin/env bash
# STS-B with the paper's settings: bash run_scripts/sts-b.sh [--method M] [--lr LR] [--seed S] ... (--help lists them)
exec bash "$(dirname "${BASH_SOURCE[0]}")/task.sh" STS-B "$@"
