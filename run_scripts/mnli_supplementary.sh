#!/usr/bin/env bash
# Supplementary training (paper, A.4 and Table 4): the whole model, with prompts, on MNLI with every pair in both
# orders. The warm-up over 6% of the updates is ours: the paper has one in fine-tuning (A.1.1). What it leaves is a
# backbone; run_scripts/README.md shows how other tasks start from it.
exec bash "$(dirname "${BASH_SOURCE[0]}")/task.sh" MNLI --supplementary "$@"
