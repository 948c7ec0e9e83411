#!/usr/bin/env bash
# Adds Megatron-Core to the PyTorch of venv.sh and prints the interpreter; only the bench that
# compares with it wants it. A wheel of 3 MB; the other packages are what its import needs.
set -euo pipefail

version=0.16.1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$("$here/venv.sh")
ready=${python%/bin/python}/ready-megatron-$version

if [[ ! -e $ready ]]; then
  pip=("$python" -m pip --disable-pip-version-check install --quiet)
  "${pip[@]}" --no-deps "megatron-core==$version" >&2
  "${pip[@]}" einops packaging pyyaml >&2
  touch "$ready"
fi
echo "$python"
