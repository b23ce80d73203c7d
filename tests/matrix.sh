#!/usr/bin/env bash
# The quick tests on several Pythons. Each has a copy of the project with an environment of its own, made by
# run_scripts/setup_env.sh, in which torch is that of its requirements, or for Python 3.10 the oldest allowed.
#
#   bash tests/matrix.sh 3.10 3.11 3.12                    # fairseq is built for each
#   bash tests/matrix.sh --without-torch 3.10 3.11 3.12    # what needs neither torch nor fairseq, in minutes
#
# An interpreter is pythonVERSION on the PATH, or pyenv's, or uv's. MATRIX: folder of the copies (default: .matrix).
set -uo pipefail
ROOT=$(CDPATH="" cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
MATRIX=${MATRIX:-$ROOT/.matrix}
WITHOUT_TORCH=(glove own_data reference refusals rows split_scores tasks)
NEEDED="numpy scipy scikit-learn regex tokenizers sentencepiece tqdm pyarrow matplotlib pytest hypothesis"

die() { printf 'tests/matrix.sh: %s\n' "$*" >&2; exit 2; }

interpreter() {  # $1: Python, such as 3.10
  local path
  for path in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python "$(uv python find "$1" 2>/dev/null)"; do
    if "$path" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
      echo "$path"; return
    fi
  done
  return 1
}

copy() {  # $1: folder, whose .venv is kept
  mkdir -p "$1" && find "$1" -mindepth 1 -maxdepth 1 ! -name '.venv*' -exec rm -rf {} + &&
    (cd "$ROOT" && git ls-files -z --cached --others --exclude-standard | tar --null -T - -cf -) | tar -xf - -C "$1"
}

whole() {  # $1: Python, $2: interpreter; in its copy
  if [ "$1" = 3.10 ]; then  # the oldest torch that setup.py allows, on the oldest Python
    sed -i.old 's/^torch==.*/torch==2.4.1/' run_scripts/requirements.txt || return
  fi
  PYTHON=$2 bash run_scripts/setup_env.sh && .venv/bin/python -m pytest -m quick -q
}

parts() {  # $2: interpreter; in its copy
  "$2" -m compileall -q benchmarks checkpoints fairseq_idpg preprocess run_scripts tests setup.py || return
  "$2" -m venv .venv-parts && .venv-parts/bin/python -m pip install --quiet --disable-pip-version-check \
    --only-binary :all: --constraint run_scripts/requirements.txt $NEEDED || return
  .venv-parts/bin/python -c 'import pkgutil, preprocess
for module in pkgutil.walk_packages(preprocess.__path__, "preprocess."): __import__(module.name)' || return
  local files=("${WITHOUT_TORCH[@]/#/tests/preprocess/test_}")
  .venv-parts/bin/python -m pytest -q tests/test_imports.py "${files[@]/%/.py}"
}

run=whole
[ "${1:-}" != --without-torch ] || { run=parts; shift; }
[ "$#" -gt 0 ] || die "name Pythons: bash tests/matrix.sh 3.10 3.11 3.12"
failed=()
for version in "$@"; do
  python=$(interpreter "$version") || die "no Python $version on the PATH, in pyenv or uv: install it, or leave it out"
  printf '== Python %s: %s\n' "$version" "$python"
  copy "$MATRIX/$version" || die "cannot copy the project to $MATRIX/$version"
  (cd "$MATRIX/$version" && "$run" "$version" "$python") || failed+=("$version")
done
[ "${#failed[@]}" -eq 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
echo "passed: $*"
