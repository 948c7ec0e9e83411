#!/usr/bin/env bash
# From a bare Debian 12 machine to a sample of a model trained here: installs packages, builds,
# fetches the plays of Shakespeare, trains a small GPT: on a GPU where Tessera can use one, else on
# the CPU with tensor parallelism as two processes.
# What is done already is skipped, and an interrupted training goes on where it was saved.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/steps.sh

usage() {
  cat <<'TEXT'
usage: examples/quickstart.sh [options]
  --short       thirty steps of a smaller model, to see that everything works
  --no-setup    install no packages
TEXT
}

setup=true name=shakespeare options=(--set device.type=auto)
while (($#)); do
  case $1 in
    --short)
      name=shakespeare-short
      options+=(--set "run.name=$name" --set "run.out=runs/$name" --set run.steps=30
        --set lr.warmup_steps=5 --set model.layers=2 --set model.hidden=64
        --set validation.every_steps=15 --set checkpoint.every_steps=15)
      shift
      ;;
    --no-setup) setup=false; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "quickstart: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
done
text=build/data/shakespeare out=runs/$name
config=(configs/shakespeare.toml "${options[@]}")
tessera=build/bin/tessera

if $setup; then
  pip=()
  if ! compgen -G "$text/*.txt" >/dev/null && ! python3 -m pip --version >/dev/null 2>&1; then
    pip=(python3-pip)
  fi
  install_packages "${pip[@]}"
fi
build_tessera

say 'text'
examples/fetch_shakespeare.sh "$text"

# The resolved configuration says what "auto" is here, and how many steps the run has.
resolved=$("$tessera" config dump "${config[@]}")
steps=$(sed -n 's/^steps = \([0-9]*\).*/\1/p' <<<"$resolved")
device=$(sed -n '/^\[device\]/,/^$/s/^type = "\([^"]*\)".*/\1/p' <<<"$resolved")
how="on the device $device"
if [[ $device == cpu ]]; then
  if [[ -d /proc/driver/nvidia && $resolved == *'no plugin is loaded that is for other hardware'* ]]
  then
    say 'a GPU is here, but nvcc was not found when this was built (plugins/devices/cuda/README.md)'
  fi
  config=(configs/shakespeare.toml configs/parallel/tp2.toml "${options[@]}")
  how='every layer split between two processes'
fi
if [[ -e $out/checkpoints/step-$steps/index.json ]]; then
  say "trained already: remove $out to train again"
else
  say "train: $steps steps, $how"
  "$tessera" train "${config[@]}"
fi

say 'result'
last() { sed -n "s/.*\"$1\":\([-+.0-9e]*\).*/\1/p" "$out/metrics.jsonl" | tail -n 1; }
LC_ALL=C printf 'after %s steps   training loss %.4f, validation loss %.4f\n' \
  "$steps" "$(last loss)" "$(last val_loss)"
echo "loss curve   $out/loss.svg"
echo "checkpoint   $out/checkpoints/step-$steps"
echo "each step    $out/metrics.jsonl"

say 'a sample'
"$tessera" generate --checkpoint "$out" --prompt $'KING HENRY.\n' --tokens 500 \
  --temperature 0.7
say 'done'
