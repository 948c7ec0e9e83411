#!/usr/bin/env bash
# From documents to a measured model: the documentation of Python, Perl and Linux, without what is
# there twice, a vocabulary of their own, token files, a GPT whose layers are cut between two
# processes, and how surprised it is by documents that were held back. A second one of the same size
# reads bytes, for the same time. What is done already is skipped; corpus/README.md has numbers.
set -euo pipefail
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/steps.sh

usage() {
  cat <<'TEXT'
usage: examples/corpus.sh [options]
  --minutes N       that each model trains [6]
  --short           small models, a few steps, the pages of this tree: no network
  --out FOLDER      where everything goes [build/data/corpus, or corpus-short]
  --no-setup        install no packages
  --tessera FILE    use this program; neither install nor build
TEXT
}

setup=true short=false minutes=6 out= tessera= model=() vocabulary=8192 context=256 share=0.01
while (($#)); do
  case $1 in
    --minutes) minutes=$2; shift 2 ;;
    --short) short=true; shift ;;
    --out) out=$(cd "$here" && realpath -m "$2"); shift 2 ;;
    --no-setup) setup=false; shift ;;
    --tessera) tessera=$(cd "$here" && realpath "$2"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "corpus: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
done
limit=(timeout --preserve-status "${minutes}m") how="for $minutes minutes"
if $short; then
  model=(--set model.layers=2 --set model.hidden=64 --set run.steps=20) vocabulary=600 context=64
  share=0.1 limit=() how='for 20 steps'
fi
out=${out:-build/data/corpus$($short && echo -short || true)}
mkdir -p "$out"

find_tessera python3

say 'documents'
if [[ ! -e $out/held-out.jsonl ]]; then
  documents=()
  if $short; then
    for folder in configs kernel plugins sdk; do
      examples/corpus/documents.py "./$folder" "$out/$folder.jsonl"
      documents+=("$out/$folder.jsonl")
    done
  else
    for package in python3.11-doc perl-doc linux-doc-6.1; do
      examples/corpus/documents.py --keep "$out/packages" "$package" "$out/$package.jsonl"
      documents+=("$out/$package.jsonl")
    done
  fi
  examples/corpus/split.py --share "$share" "$out/train.jsonl" "$out/held-out.partial" \
    "${documents[@]}"
  mv "$out/held-out.partial" "$out/held-out.jsonl"
fi

say "a vocabulary of $vocabulary"
cat >"$out/vocabulary.toml" <<TOML
schema = 1
input = ["train.jsonl"]
output = "vocabulary.model"
sample_mib = 16
trainer = {type = "bpe", vocabulary = $vocabulary}
TOML
if [[ ! -e $out/vocabulary.model ]]; then
  "$tessera" tokenizer train "$out/vocabulary.toml"
fi

# Token files NAME of a tokenizer.
build_tokens() {
  say "token files: $1"
  cat >"$out/$1.toml" <<TOML
schema = 1
input = ["train.jsonl"]
output = "$1"
tokenizer = $2
stages = [
  {type = "clean"},
  {type = "near_duplicates"},
  {type = "overlap", files = ["held-out.jsonl"]},
]
TOML
  if [[ ! -e $out/$1.idx ]]; then "$tessera" data build "$out/$1.toml"; fi
}
subwords='{type = "sentencepiece", path = "vocabulary.model"}' bytes='{type = "byte"}'
build_tokens tokens "$subwords"
build_tokens bytes "$bytes"

# A step has 8 samples of $context subwords, or 2 of 4 × $context bytes: as many tokens, and bytes
# that look back at no less text. When the time is over a signal ends the run after a step; it
# saves, and exits with 3.
train() {  # NAME SAMPLES LENGTH
  local run=$out/runs/$1 options=() status=0
  if [[ -e $run/complete && $(<"$run/complete") == "$how" ]]; then return; fi
  options+=(--set "run.name=$1" --set "run.out=$run" --set "data.path=[\"$out/$1\"]"
    --set "batch.global=$2" --set "batch.micro=$2" --set "batch.sequence_length=$3")
  if [[ $1 == tokens ]]; then
    options+=(--set tokenizer.type=sentencepiece --set "tokenizer.path=$out/vocabulary.model")
  fi
  rm -rf "$run"  # one that was interrupted, or had another time
  "${limit[@]}" "$tessera" train examples/corpus/gpt.toml "${options[@]}" "${model[@]}" ||
    status=$?
  if ((status != 0 && status != 3)); then exit "$status"; fi
  echo "$how" >"$run/complete"
}

say "train on tokens, $how"
train tokens 8 "$context"
say "train on bytes, $how"
train bytes 2 $((4 * context))

say 'documents that were held back'
# Those that the model NAME has not seen, in windows of as many tokens as it was trained with.
measure() {  # NAME WINDOW
  "$tessera" eval perplexity --checkpoint "$out/runs/$1" --data "$out/held-out.jsonl" \
    --ranks 2 --window "$2" --json >"$out/$1.json"
  field() { sed -n "s/.*\"$1\":\([-+.0-9e]*\).*/\1/p" "$2" | tail -n 1; }
  LC_ALL=C printf '%-8s%7d steps   loss %.4f   word perplexity %12.1f   bits a byte %.4f\n' \
    "$1" "$(field step "$out/runs/$1/metrics.jsonl")" "$(field loss "$out/runs/$1/metrics.jsonl")" \
    "$(field word_perplexity "$out/$1.json")" "$(field bits_per_byte "$out/$1.json")"
}
measure tokens "$context"
measure bytes $((4 * context))
if ! $short && ! LC_ALL=C awk -v tokens="$(field bits_per_byte "$out/tokens.json")" \
  -v bytes="$(field bits_per_byte "$out/bytes.json")" 'BEGIN {exit !(tokens < bytes)}'; then
  echo 'corpus: subwords should need fewer bits a byte than bytes do' >&2
  exit 1
fi
say 'done'
