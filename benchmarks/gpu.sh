#!/usr/bin/env bash
# Steps of RoBERTa-large on an NVIDIA GPU: float16 and bfloat16, batches of 16 and 32, sentences of 32, 128, 512 tokens.
# Leaves a JSON file for each combination and summary.txt, a table of all, in OUT (from the root of the repository).
#
#   bash benchmarks/gpu.sh                        # makes .venv (see run_scripts/setup_env.sh)
#   PYTHON=python3 bash benchmarks/gpu.sh         # an environment that has torch with CUDA and fairseq
#   DEVICE=cpu SIZE=tiny bash benchmarks/gpu.sh   # does the script run? seconds, any machine
#
# Others: DTYPES="float32 float16" BATCHES="16" LENGTHS="64" CASES="floor m-idpg-phm" OUT=folder; further arguments go
# to benchmarks/step_time.py, such as --rounds 10. peft's prompts are measured too where peft is installed, in the
# environment or by benchmarks/setup_peers.sh.
#
# Which CUDA build of torch fits the driver is yours to choose: .venv gets the build that pip's index offers. Where that
# has no CUDA or the wrong one, install the same version into .venv from the index that
# https://pytorch.org/get-started/locally names, and run this again.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'error: %s\n' "$*" >&2; exit 1; }
has() { "$PYTHON" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)' "$1"; }

device=${DEVICE:-cuda}
size=${SIZE:-roberta-large}
out=${OUT:-outputs/$device-$size}
own="floor prompt-tuning p-tuning-v2 p-tuning-v2-kv m-idpg-phm m-idpg-phm-cached fine-tuning"
peers="peft-prompt-tuning peft-prefix-features"
case $size in
  tiny) defaults=("bfloat16" "2" "8 16" "floor m-idpg-phm") ;;
  *) defaults=("float16 bfloat16" "16 32" "32 128 512" "$own") ;;
esac

if [ -z "${PYTHON:-}" ]; then
  if [ "$device" = cuda ] && ! nvidia-smi -L >/dev/null 2>&1; then
    die "nvidia-smi -L lists no NVIDIA GPU here: run this where there is one, or give DEVICE=cpu SIZE=tiny"
  fi
  bash run_scripts/setup_env.sh
  PYTHON=.venv/bin/python
fi
command -v "$PYTHON" >/dev/null || die "PYTHON=$PYTHON is no command: name the interpreter of an environment"
for library in torch fairseq; do
  has "$library" || die "PYTHON=$PYTHON has no $library: install it there, or leave PYTHON out to make .venv"
done
"$PYTHON" benchmarks/step_device.py "$device"
if [ "$size" != tiny ] && { [ -d benchmarks/.peers ] || has peft; }; then
  defaults[3]="$own $peers"
fi
read -ra dtypes <<<"${DTYPES:-${defaults[0]}}"
read -ra batches <<<"${BATCHES:-${defaults[1]}}"
read -ra lengths <<<"${LENGTHS:-${defaults[2]}}"
read -ra cases <<<"${CASES:-${defaults[3]}}"

mkdir -p "$out"
files=() failed=()
for dtype in "${dtypes[@]}"; do
  for batch in "${batches[@]}"; do
    for length in "${lengths[@]}"; do
      file=$out/$dtype-batch$batch-length$length.json
      rm -f "$file"
      "$PYTHON" benchmarks/step_time.py --device "$device" --size "$size" --dtype "$dtype" --batch "$batch" \
        --length "$length" --cases "${cases[@]}" --json "$file" "$@" || failed+=("$file")
      [ -f "$file" ] || exit 1 # refused: step_time.py has said why
      files+=("$file")
      echo
    done
  done
done
"$PYTHON" benchmarks/gpu_report.py "${files[@]}" | tee "$out/summary.txt"
[ ${#failed[@]} -eq 0 ] || die "cases failed in ${failed[*]}, see above"
