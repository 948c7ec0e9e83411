#!/usr/bin/env bash
# Makes build/bench-venv, a private Python with PyTorch for the peers, and prints its interpreter.
# Does nothing when it is there already. Needs python3 >= 3.10 with venv, cc, nm, readelf.
#
# PyPI has only CUDA builds of PyTorch for Linux x86-64; with their dependencies they come to
# gigabytes. The wheel alone is 539 MB (2.12 to 2.15 are; 2.6 to 2.9 were 770 to 890) and its
# CPU side is complete (MKL, oneDNN, Gloo). Without the vendor libraries its import fails, so
# peers/cuda_stubs.py puts stubs in their place. The import of such a build holds about 250 MiB:
# train_step.py therefore shows memory with and without it.
set -euo pipefail

torch_version=2.15.0
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=$(cd "$here/../.." && pwd)/build/bench-venv
ready=$venv/ready-torch-$torch_version-2  # count up when this script changes

mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9

if [[ ! -e $ready ]]; then
  {
    rm -rf "$venv"
    python3 -m venv "$venv"
    # Most modules are never imported: those that are compile then.
    pip=("$venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile)
    "${pip[@]}" filelock typing-extensions sympy networkx jinja2 fsspec numpy
    "${pip[@]}" --no-deps --no-cache-dir "torch==$torch_version"
    site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])')
    "$venv/bin/python" "$here/peers/cuda_stubs.py" "$site/torch/lib"
    cc -shared -fPIC "$here/peers/mkl_intel_cpu.c" -o "$venv/lib/mkl_intel_cpu.so"
    # Gloo's threads must end before the interpreter, which aborts now and then otherwise.
    "$venv/bin/python" -c 'import torch, torch.distributed as d
d.init_process_group("gloo", rank=0, world_size=1, store=d.HashStore())
x = torch.ones(4); d.all_reduce(x); d.destroy_process_group()
print("PyTorch", torch.__version__, "with Gloo works")'
    touch "$ready"
  } >&2
fi
echo "$venv/bin/python"
