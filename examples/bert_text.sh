#!/usr/bin/env bash
# Makes of the plays of Shakespeare what configs/bert_tiny.toml trains on: a vocabulary of WordPiece
# (letters, and the words that come often) and a token file that has a sequence for each line of a
# play. Does nothing when they are there.
set -euo pipefail
folder=${1:?usage: examples/bert_text.sh FOLDER [TESSERA]} tessera=${2:-build/bin/tessera}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ -e $folder/plays.idx ]]; then
  echo "text: $folder/plays.idx is there"
  exit 0
fi
plays=${PLAYS:-build/data/shakespeare}
examples/fetch_shakespeare.sh "$plays"
mkdir -p "$folder"

export LC_ALL=C  # the same order of words everywhere
{
  printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]'
  for code in {33..64} {91..126}; do printf "\\x$(printf %x "$code")\n"; done
  for letter in {a..z} {0..9}; do echo "##$letter"; done
  cat "$plays"/*.txt | tr 'A-Z' 'a-z' | grep -oE '[a-z]{2,}' | sort | uniq -c |
    sort -k1,1nr -k2 | awk '$1 >= 20 {print $2}'
} >"$folder/vocab.txt"

cat >"$folder/plays.toml" <<TOML
schema = 1
input = ["$(realpath "$plays")/*.txt"]
output = "plays"
tokenizer = {type = "wordpiece", path = "vocab.txt"}
stages = [{type = "clean"}, {type = "sentences", lines = true}]
TOML
"$tessera" data build "$folder/plays.toml"
