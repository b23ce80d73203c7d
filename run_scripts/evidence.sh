#!/usr/bin/env bash
# The sweeps of run_scripts/configs/evidence in the order of what they say, and their records:
#
#   bash run_scripts/evidence.sh minilm [PART]... [options of run_scripts.sweep]
#
# PARTs, by default all: tests tests-k500 tests-more few-shot few-shot-more k1000 full position length sharing. Runs go
# to results/evidence, records to run_scripts/results. The same command goes on after an interruption; with --dry-run it
# checks everything and lists the missing runs. RoBERTa-large's tables are run_scripts/configs/table1.yaml and so on.
set -euo pipefail
HERE=$(dirname "${BASH_SOURCE[0]}")
source "$HERE/python.sh"
PARTS="tests tests-k500 tests-more few-shot few-shot-more k1000 full position length sharing"

die() { echo "evidence.sh: $*" >&2; exit 1; }

case ${1:-} in
  -h | --help) sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; exit ;;
  minilm) shift ;;
  *) die "backbone '${1:-}' is unknown: name minilm" ;;
esac
parts="" dry=""
while [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; do
  case " $PARTS " in *" $1 "*) parts+="$1 " ;; *) die "part $1 is unknown: $PARTS" ;; esac
  shift
done
for option in "$@"; do [ "$option" != --dry-run ] || dry=yes; done

need_python
for part in ${parts:-$PARTS}; do
  name=minilm-${part%-more} name=${name%-k500}
  "$PYTHON" -m run_scripts.sweep "$HERE/configs/evidence/$part.yaml" --results "results/evidence/$name" "$@"
  [ -n "$dry" ] || "$PYTHON" -m run_scripts.publish "results/evidence/$name" --out "$HERE/results/$name.jsonl"
done
