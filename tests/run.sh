#!/usr/bin/env bash
# Sets up, configures, builds and tests the tree, as continuous integration does.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'TEXT'
usage: tests/run.sh [options]
  --preset NAME    a preset of CMakePresets.json instead of ci (release, dev, tsan)
  --label LABEL    only the tests of one label: unit, sdk, multirank, e2e, oracle, fuzz, lint,
                   gpu, tidy
  --sanitizers     also the presets dev (ASan, UBSan) and tsan
  --no-setup       install no packages
  --no-oracle      no comparison with PyTorch, which the set-up downloads once (0.7 GB)
  --no-cuda        do not compile for NVIDIA GPUs, whose compiler the set-up downloads once where
                   there is none (105 MB)
TEXT
}

presets=(ci) label='' venv='' setup=true oracle=true cuda=true
while (($#)); do
  case $1 in
    --preset) presets[0]=${2:?--preset needs a name}; shift 2 ;;
    --label) label=${2:?--label needs a name}; shift 2 ;;
    --sanitizers) presets+=(dev tsan); shift ;;
    --no-setup) setup=false; shift ;;
    --no-oracle) oracle=false; shift ;;
    --no-cuda) cuda=false; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "tests/run.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
done

if $setup; then
  source tests/setup.sh
  tessera_setup all
  # Beside the build, which has no use for it: one processor is busy with it for a minute.
  if $oracle && [[ -z $label || $label == oracle ]]; then
    mkdir -p build
    tests/oracle/venv.sh >build/bench-venv.log 2>&1 &
    venv=$!
    trap '[[ -z $venv ]] || kill "$venv" 2>/dev/null || true' EXIT
  fi
  if $cuda; then
    CUDACXX=$(tests/cuda_toolkit.sh)
    export CUDACXX
    echo "setup: nvcc is $CUDACXX"
  fi
fi
configure=()
if ! $cuda; then configure=(-D TESSERA_CUDA=OFF); fi

# tidy is slow and looks at what is being changed, so it runs when asked for.
select=(--label-exclude '^tidy$')
if ! $oracle; then select=(--label-exclude '^(tidy|oracle)$'); fi
if [[ $label ]]; then select=(--label-regex "^$label\$"); fi

for preset in "${presets[@]}"; do
  echo "== $preset: configure"
  cmake --preset "$preset" "${configure[@]}"
  echo "== $preset: build"
  cmake --build --preset "$preset"
  if [[ $venv ]]; then
    if ! wait "$venv"; then
      cat build/bench-venv.log >&2
      echo "tests/run.sh: PyTorch could not be set up; --no-oracle does without" >&2
      exit 1
    fi
    venv=''
    echo "setup: PyTorch's python is $(tail -n 1 build/bench-venv.log)"
  fi
  echo "== $preset: test"
  ctest --preset "$preset" "${select[@]}"
done
