#!/usr/bin/env bash
# Supplementary training (paper, A.4 and Table 4): the whole model, with prompts, on MNLI with every pair in both
# orders; learning rate 1e-5 with linear decay, batch 32, 10 epochs. The warm-up over 6% of the updates is ours:
# the paper has one in fine-tuning (A.1.1). What it leaves is a backbone:
#
#   bash run_scripts/mnli_supplementary.sh --method s-idpg-phm --position 0 --out checkpoints/mnli-s-idpg-phm-0.pt
#   bash run_scripts/rte.sh --method s-idpg-phm --position 1 --backbone checkpoints/mnli-s-idpg-phm-0.pt \
#       --supplementary-position 0 --init-prompts-from checkpoints/mnli-s-idpg-phm-0.pt
#
# --init-prompts-from keeps the generator, --init-head-from the head (of three classes); without them they start anew.
# EFL and the few-shot setting start in the same way: --backbone checkpoints/roberta.large.mnli/model.pt.
exec bash "$(dirname "${BASH_SOURCE[0]}")/task.sh" MNLI --supplementary "$@"
