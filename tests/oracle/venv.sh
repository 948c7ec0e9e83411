#!/usr/bin/env bash
# Makes what the oracle runs in and prints its interpreter: the PyTorch of the benchmarks
# (../bench/venv.sh, a 0.5 GB wheel the first time) and the safetensors package, to read Tessera's
# checkpoints by other code than its own.
set -euo pipefail

safetensors_version=0.8.0
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$("$here/../bench/venv.sh")
ready=${python%/bin/python}/ready-oracle-$safetensors_version  # oracle.py looks for ready-oracle-*

if [[ ! -e $ready ]]; then
  "$python" -m pip --disable-pip-version-check install --quiet --no-deps \
    "safetensors==$safetensors_version" >&2
  "$python" -c 'import safetensors.numpy, tomllib'
  touch "$ready"
fi
echo "$python"
