#!/usr/bin/env bash
# Prints an nvcc that compiles the device `cuda`: the one of CUDACXX, PATH or /usr/local/cuda, or
# else one made of NVIDIA's Python packages in build/cuda-toolkit (105 MB the first time). Nothing
# here needs a GPU.
set -euo pipefail

cuda=13.0.88 runtime=13.0.96 cccl=13.0.85
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
toolkit=$(cd "$here/.." && pwd)/build/cuda-toolkit
ready=$toolkit/ready-$cuda-$runtime-$cccl-1  # count up when this script changes

for nvcc in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
  if [[ $nvcc && -x $nvcc ]]; then echo "$nvcc"; exit; fi
done

mkdir -p "$(dirname "$toolkit")"
exec 9>"$toolkit.lock"
flock 9

if [[ ! -e $ready ]]; then
  {
    rm -rf "$toolkit"
    python3 -m venv "$toolkit/pip"
    "$toolkit/pip/bin/python" -m pip --disable-pip-version-check install --quiet --no-deps \
      --target "$toolkit/packages" "nvidia-cuda-nvcc==$cuda" "nvidia-nvvm==$cuda" \
      "nvidia-cuda-crt==$cuda" "nvidia-cuda-runtime==$runtime" "nvidia-cuda-cccl==$cccl"
    root=$toolkit/packages/nvidia/cu13
    # What CMake and nvcc look for and the packages lack.
    ln -sfn lib "$root/lib64"
    ln -sfn libcudart.so.13 "$root/lib/libcudart.so"
    "$root/bin/nvcc" --version
    touch "$ready"
  } >&2
fi
echo "$toolkit/packages/nvidia/cu13/bin/nvcc"
