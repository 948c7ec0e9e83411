#!/usr/bin/env bash
# Fine-tunes a BERT of Hugging Face, all-MiniLM-L6-v2, to tell where a piece of text is from: the
# documentation of Python, of Perl or of Linux. Two replicas train for some minutes; then pieces of
# documents that were held back are measured. corpus/README.md has numbers.
set -euo pipefail
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/steps.sh

usage() {
  cat <<'TEXT'
usage: examples/sources.sh [options]
  --out FOLDER      where everything goes [build/data/sources]
  --no-setup        install no packages
  --tessera FILE    use this program; neither install nor build
TEXT
}

setup=true out=build/data/sources tessera=
while (($#)); do
  case $1 in
    --out) out=$(cd "$here" && realpath -m "$2"); shift 2 ;;
    --no-setup) setup=false; shift ;;
    --tessera) tessera=$(cd "$here" && realpath "$2"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "sources: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
done
mkdir -p "$out"

find_tessera python3 python3-pip

say 'documents'
if [[ ! -e $out/test.jsonl ]]; then
  documents=()
  for source in python=python3.11-doc perl=perl-doc linux=linux-doc-6.1; do
    file=$out/${source%%=*}.jsonl
    examples/corpus/documents.py --keep "$out/packages" "${source#*=}" "$file"
    documents+=("$file")
  done
  examples/corpus/sources.py "$out/train.jsonl" "$out/test.partial" "${documents[@]}"
  mv "$out/test.partial" "$out/test.jsonl"
fi

say 'model'
examples/corpus/minilm.py "$out/minilm"
if [[ ! -e $out/start ]]; then "$tessera" convert --from "$out/minilm" --to "$out/start"; fi

say 'training'
"$tessera" train "$out/start/model.toml" examples/corpus/sources.toml \
  --set "run.out=$out/run" --set "checkpoint.init_from=$out/start" \
  --set "data.path=[\"$out/train.jsonl\"]"

say 'pieces of documents that were held back'
"$tessera" eval classes --checkpoint "$out/run" --data "$out/test.jsonl" --ranks 2
say 'done'
