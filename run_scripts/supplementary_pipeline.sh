#!/usr/bin/env bash
# Supplementary training on MNLI and then the tasks, for pairs of prompt positions, and the paper's Figure 7 of them:
#
#   bash run_scripts/supplementary_pipeline.sh --pairs "0:0 0:1 4:1" --tasks "RTE MRPC" \
#       --methods "prompt-tuning s-idpg-phm" [--seeds "1 2 3"] [--lrs "5.0e-3 5.0e-4"] [--backbone FILE] [--arch ARCH] \
#       [--data DIR] [--mnli DIR] [--results DIR] [--set KEY=VALUE]... [options of run_scripts.sweep]
#
# A pair is SUPPLEMENTARY:DOWNSTREAM. Each method is trained on MNLI once for each supplementary position, in
# RESULTS/supplementary. The same command goes on after an interruption. What is left out is as in
# run_scripts/configs/figure7.yaml.
set -euo pipefail
HERE=$(dirname "${BASH_SOURCE[0]}")
source "$HERE/python.sh"

die() { echo "supplementary_pipeline.sh: $*" >&2; exit 1; }
usage() { sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; }
list() { local IFS=,; echo "[$*]"; }  # a b -> [a,b]
quoted() { local quote="'"; echo "'${1//$quote/$quote$quote}'"; }  # a text of YAML

results=results/figure7 methods="" positions="" listed=""
sweep=(-m run_scripts.sweep "$HERE/configs/figure7.yaml")
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit ;;
    --dry-run) listed=yes; sweep+=("$1"); shift; continue ;;
    --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
  esac
  [[ ${2-} == *[![:space:]]* ]] || die "$1 needs a value; --help shows all options"
  # shellcheck disable=SC2086  # lists are words
  case $1 in
    --pairs)
      for pair in $2; do
        [[ $pair =~ ^[0-4]:[0-4]$ ]] || die "--pairs $pair: write two positions from 0 to 4, such as 0:1"
        positions+="${positions:+,}[${pair/:/,}]"
      done ;;
    --methods) methods=$2 ;;
    --tasks | --seeds | --lrs) sweep+=(--set "${1#--}=$(list $2)") ;;
    --backbone | --arch | --data) sweep+=(--set "${1#--}=$(quoted "$2")") ;;
    --mnli) sweep+=(--set "supplementary.data=$(quoted "$2")") ;;
    --results) results=$2 ;;
    *) sweep+=("$1" "$2") ;;
  esac
  shift 2
done
if [ -n "$methods" ] && [ -z "$positions" ]; then die "--methods $methods needs the positions of each: add --pairs"; fi
# shellcheck disable=SC2086
if [ -n "$positions" ]; then
  sweep+=(--set "positions=[$positions]" "rows=$(list ${methods:-prompt-tuning s-idpg-phm})")
fi

need_python
"$PYTHON" "${sweep[@]}" --results "$results"
if [ -z "$listed" ]; then exec "$PYTHON" -m run_scripts.report "$results" --figure 7; fi
