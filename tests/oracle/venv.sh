#!/usr/bin/env bash
# Makes what the oracle runs in and prints its interpreter: the PyTorch of the benchmarks
# (../bench/venv.sh, a 0.5 GB wheel the first time), the safetensors package, to read Tessera's
# checkpoints by other code than its own, transformers, whose models Tessera converts, with what it
# needs to read GGUF files (real_llama.py), sentencepiece, the models of mistral-common,
# Megatron-Core (the last one for Python 3.11), lm-evaluation-harness, and MKL, with which the
# device `cpu` can multiply.
set -euo pipefail

safetensors_version=0.8.0
transformers_version=5.23.0
mkl_version=2026.2.0
gguf_version=0.19.0
accelerate_version=1.15.0
sentencepiece_version=0.2.1
trainer_version=0.1.97  # of sentencepiece, as Debian 12's library: newer ones train otherwise
mistral_version=1.13.1  # its models alone: nothing imports it
megatron_version=0.16.1
tensorboard_version=2.21.0  # without what its server needs
harness_version=0.4.13  # lm-evaluation-harness, without its data sets
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$("$here/../bench/venv.sh")
# oracle.py looks for ready-oracle-*.
versions=$safetensors_version-$transformers_version-$mkl_version-$gguf_version-$accelerate_version
versions+=-$sentencepiece_version-$mistral_version
versions+=-$megatron_version-$tensorboard_version-$harness_version-$trainer_version
ready=${python%/bin/python}/ready-oracle-$versions

if [[ ! -e $ready ]]; then
  pip=("$python" -m pip --disable-pip-version-check install --quiet --no-compile)
  "${pip[@]}" --no-deps \
    "safetensors==$safetensors_version" "transformers==$transformers_version" \
    "mkl==$mkl_version" "gguf==$gguf_version" "accelerate==$accelerate_version" \
    "sentencepiece==$sentencepiece_version" "mistral-common==$mistral_version" \
    "megatron-core==$megatron_version" "tensorboard==$tensorboard_version" \
    "lm-eval==$harness_version" >&2
  # Beside the other sentencepiece, where sentencepiece_model.py looks.
  "${pip[@]}" --no-deps --upgrade \
    --target "${python%/bin/python}/sentencepiece-trainer" "sentencepiece==$trainer_version" >&2
  # What these need, but for PyTorch, which is there in its own way.
  "${pip[@]}" \
    absl-py dill "huggingface-hub>=1.31,<3" "tokenizers>=0.23.1,<0.24" packaging protobuf psutil \
    pyyaml regex requests tqdm typer >&2
  # Keeps their bytecode where oracle.py looks for it.
  env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX="${python%/bin/python}/pycache" "$python" -c \
    'import accelerate, gguf, safetensors.numpy, sentencepiece, tomllib, torch
from transformers import GPT2LMHeadModel'
  ls "${python%/bin/python}"/lib/libmkl_rt.so* >&2  # where the test oracle.mkl looks
  touch "$ready"
fi
echo "$python"
