#!/usr/bin/env bash
# The sweeps of run_scripts/configs/evidence in the order of what they say, and their records:
#
#   bash run_scripts/evidence.sh [--print] minilm|roberta-large [PART]... [options of run_scripts.sweep]
#
# PARTs, by default all: few-shot few-shot-more k1000 full position length sharing. Runs go to results/evidence, records
# to run_scripts/results. The same command goes on after an interruption. --print shows the commands; --dry-run checks
# everything and lists the runs that are missing. roberta-large takes the whole data sets, on a GPU, with the paper's
# learning rates; Table 3's backbone is roberta.large.mnli. run_scripts/configs/table3.yaml has all of Table 3.
set -euo pipefail
HERE=$(dirname "${BASH_SOURCE[0]}")
source "$HERE/python.sh"
PARTS="few-shot few-shot-more k1000 full position length sharing"

die() { echo "evidence.sh: $*" >&2; exit 1; }
usage() { sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed -e '/^set/d' -e 's/^# \{0,1\}//'; }
printed() { printf '%q ' "$@"; echo; }  # so that a shell takes it as it is

run="" parts="" dry=""
case ${1:-} in -h | --help) usage; exit ;; --print) run=printed; shift ;; esac
backbone=${1:-}
case $backbone in
  minilm) changes=() ;;
  roberta-large) changes=(--set arch=roberta_idpg_large data=data options.fp16=true lrs=null dev_examples=null) ;;
  "") die "name a backbone: minilm or roberta-large" ;;
  *) die "backbone $backbone is unknown: name minilm or roberta-large" ;;
esac
shift
while [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; do
  case " $PARTS " in *" $1 "*) parts+="$1 " ;; *) die "part $1 is unknown: $PARTS" ;; esac
  shift
done
[ -n "$run" ] || need_python
for option in "$@"; do [ "$option" != --dry-run ] || dry=yes; done

for part in ${parts:-$PARTS}; do
  name=$backbone-${part%-more}
  more=()
  if [ "$backbone" = roberta-large ]; then
    more+=(backbone="checkpoints/roberta.large$([ "$part" = full ] || echo .mnli)/model.pt")
    case $part in few-shot*) more+=("tasks=[CR,MR,STS-B,MRPC]") ;; esac
    case $part in  # those of the files have rates and word vectors of MiniLM's
      few-shot-more)
        rows="s-idpg-phm,s-idpg-dnn,m-idpg-phm-glove,compacter,lora,id-spam,fine-tuning"
        for method in prompt-tuning p-tuning-v2; do
          rows+=",{name: $method-no-dropout, method: $method, options: {dropout: 0, attention-dropout: 0}}"
        done
        rows+=",{name: m-idpg-phm-no-dropout, method: m-idpg-phm, "
        rows+="options: {dropout: 0, attention-dropout: 0, generator-dropout: 0}}"
        more+=("rows=[$rows]") ;;
      k1000 | full) more+=("rows=[prompt-tuning,p-tuning-v2,m-idpg-phm,fine-tuning]") ;;
    esac
  fi
  $run "$PYTHON" -m run_scripts.sweep "$HERE/configs/evidence/$part.yaml" --results "results/evidence/$name" \
    ${changes[@]+"${changes[@]}"} ${more[@]+"${more[@]}"} "$@"
  [ -n "$dry" ] || $run "$PYTHON" -m run_scripts.publish "results/evidence/$name" --out "$HERE/results/$name.jsonl"
done
