#!/usr/bin/env bash
# Measures this project on an NVIDIA GPU, with random weights of RoBERTa-large's size. It leaves report.md, the tables,
# and report.json, the one file to send.
#
#   bash benchmarks/gpu.sh                        # makes .venv (see run_scripts/setup_env.sh)
#   PYTHON=python3 bash benchmarks/gpu.sh         # an environment that has torch with CUDA and fairseq; no network needed
#   bash benchmarks/gpu.sh --limit 200            # ends after 200 seconds; the same command goes on with the other parts
#   bash benchmarks/gpu.sh --dry-run              # lists the commands, on any machine
#   DEVICE=cpu SIZE=tiny bash benchmarks/gpu.sh   # does the script run? a minute or two, any machine
#
# PARTS (default: all, in this order). Each is some commands that write a JSON file to OUT; one that fails does not stop
# the others:
#   environment   GPU, driver, torch, CUDA, libraries: they head every report
#   agree         loss and gradients of some cases on the GPU beside the CPU
#   targets       time and memory of a training step beside peft's and prompt tuning's, and what they should be
#   few-shot      seconds of sixteen few-shot trainings of MiniLM at once, and what they should be
#   sizes         steps of some cases with batches of 16 and 32, sentences of 32, 128 and 512 tokens; memory by
#                 calculation, and measured, of backbones of 0.1 to 10 billion weights (benchmarks/memory.py)
#   predict       time and memory of predictions of the same cases
#   steps         steps of every preset, with caches, beside peft where that is installed, in the environment or by
#                 benchmarks/setup_peers.sh; batches of 32 sentences of 128 tokens
#
# Other variables: DTYPES="float32 float16" CASES="floor m-idpg-phm 'lora*'" OUT=folder. Further arguments go to
# benchmarks/step_time.py, such as --rounds 10, or --against DIR: another checkout of this project, whose cases are
# measured in the same run. Other batches and lengths: benchmarks/scaling.py --device cuda. The tests that look at a
# device: pytest tests/device tests/cli/test_gpu.py tests/backbone/test_padding.py.
#
# .venv gets the build of torch that pip's index offers. Where that has no CUDA or the wrong one for the driver, install
# the same version into .venv from the index that https://pytorch.org/get-started/locally names, and run this again.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${PYTHON:-}" ]; then
  case " $* " in
    *" --dry-run "*) ;;
    *)
      [ "${DEVICE:-cuda}" != cuda ] || nvidia-smi -L >/dev/null 2>&1 ||
        { echo "error: nvidia-smi -L lists no NVIDIA GPU here: give DEVICE=cpu SIZE=tiny" >&2; exit 1; }
      bash run_scripts/setup_env.sh ;;
  esac
  PYTHON=.venv/bin/python
fi
exec "$PYTHON" benchmarks/gpu.py "$@"
