#!/usr/bin/env bash
# Fetch one of fairseq's released RoBERTa models, or the files of their byte-pair encoding.
#
#     checkpoints/download.sh roberta.base|roberta.large|roberta.large.mnli|gpt2_bpe [DEST]
#
# Unpacks into DEST/NAME/ (DEST is this folder if not given); does nothing if it is already there.
# FAIRSEQ_MODELS_URL names another server with the same archives.
set -euo pipefail

fail() {
    echo "download.sh: $*" >&2
    exit 1
}

# fetch URL FILE: the progress bar is for a terminal only, so a log gets no more than our own line.
fetch() {
    if command -v curl >/dev/null; then
        local bar=--progress-bar
        [ -t 2 ] || bar=--silent
        curl --fail --location --connect-timeout 30 "$bar" --output "$2" "$1"
    elif command -v wget >/dev/null; then
        local bar=--show-progress
        [ -t 2 ] || bar=--quiet
        wget --quiet "$bar" --connect-timeout=30 --tries=2 --output-document="$2" "$1"
    else
        fail "needs curl or wget; install one, or $by_hand"
    fi
}

case "${1:-}" in
roberta.base | roberta.large | roberta.large.mnli) needed="model.pt dict.txt" ;;
gpt2_bpe) needed="encoder.json vocab.bpe dict.txt" ;;
*)
    echo "usage: download.sh roberta.base|roberta.large|roberta.large.mnli|gpt2_bpe [DEST]" >&2
    exit 2
    ;;
esac

name=$1
dest=${2:-$(CDPATH="" cd "$(dirname "$0")" && pwd)}
target=$dest/$name
models=${FAIRSEQ_MODELS_URL:-https://dl.fbaipublicfiles.com/fairseq/models}
url=$models/$name.tar.gz
by_hand="fetch it on another machine and unpack it into $dest"
if [ "$name" = gpt2_bpe ]; then
    url=${models%/models}/gpt2_bpe
    by_hand="fetch its files on another machine and put them into $target"
fi

lacking=
for file in $needed; do
    [ -f "$target/$file" ] || lacking+="${lacking:+, }$file"
done
if [ -z "$lacking" ]; then
    echo "$target is already there"
    exit 0
fi
[ ! -e "$target" ] || fail "$target exists but has no $lacking; move it away and try again"

mkdir -p "$dest"
work=$dest/.$name.tmp-$$
trap 'rm -rf "$work"' EXIT
mkdir "$work"

echo "$url -> $target"
if [ "$name" = gpt2_bpe ]; then
    mkdir "$work/$name"
    for file in $needed; do
        fetch "$url/$file" "$work/$name/$file" || fail "cannot fetch $url/$file; $by_hand"
    done
else
    fetch "$url" "$work/archive.tar.gz" ||
        fail "cannot fetch $url; $by_hand, or convert a local model with convert_hf.py"
    tar -xzf "$work/archive.tar.gz" -C "$work" 2>/dev/null ||
        fail "$url is not a complete .tar.gz archive; try again, or $by_hand"
fi
for file in $needed; do
    [ -s "$work/$name/$file" ] || fail "$url: $file is empty or missing; $by_hand"
done
mv "$work/$name" "$target"
