#!/usr/bin/env bash
# Makes the projects of this folder outside of the tree (`tessera new`), builds and tests them
# against an installed Tessera; trains a few steps with each plugin in every layout, with graphs, in
# 16 bits.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'TEXT'
usage: examples/run_plugins.sh [options]
  --build DIR    what Tessera was built in, instead of build
  --work DIR     where to install and build, instead of <build>/examples
  --names PREFIX name the plugins so: that prefix and the kind, as in own_layer
TEXT
}

build=$root/build work='' prefixed=''
while (($#)); do
  case $1 in
    --build) build=$(realpath "${2:?--build needs a folder}"); shift 2 ;;
    --work) work=${2:?--work needs a folder}; shift 2 ;;
    --names) prefixed=${2:?--names needs a prefix}; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "run_plugins.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
done
work=${work:-$build/examples}
mkdir -p "$work"
work=$(realpath "$work")
prefix=$work/prefix tessera=$work/prefix/bin/tessera

if [[ ! -x $build/bin/tessera ]]; then
  echo "run_plugins.sh: there is no $build/bin/tessera; build Tessera first" >&2
  exit 1
fi
say() { printf '\n== %s\n' "$*"; }
# Runs a command, shows its output, and wants a text in it.
expect() {
  local text=$1 output
  shift
  output=$("$@") || { echo "$output"; echo "failed: $*" >&2; exit 1; }
  echo "$output"
  if [[ $output != *"$text"* ]]; then
    echo "run_plugins.sh: expected \"$text\" of: $*" >&2
    exit 1
  fi
}

say "install Tessera to $prefix"
cmake --install "$build" --prefix "$prefix" >"$work/install.log"

# A plugin must be compiled as its host was: it is refused otherwise.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
flags=$(cached CMAKE_CXX_FLAGS) sanitizers=$(cached TESSERA_SANITIZE)
ccache=$(cached TESSERA_CCACHE)
if [[ $sanitizers ]]; then flags+=" -fsanitize=$sanitizers"; fi
if [[ $ccache == *-NOTFOUND ]]; then ccache=''; fi
options=("-DCMAKE_PREFIX_PATH=$prefix" "-DCMAKE_CXX_COMPILER=$(cached CMAKE_CXX_COMPILER)"
  "-DCMAKE_BUILD_TYPE=$(cached CMAKE_BUILD_TYPE)" "-DCMAKE_CXX_FLAGS=$flags"
  "-DCMAKE_CXX_COMPILER_LAUNCHER=$ccache"
  "-DTESSERA_CUDA=$(cached TESSERA_CUDA)"
  "-DTESSERA_CUDA_ARCHITECTURES=$(cached TESSERA_CUDA_ARCHITECTURES)")

# All are built at once, each as a project of its own: it finds Tessera and asks for tests itself.
projects=$work/projects
rm -rf "$projects"
mkdir "$projects"
kinds=()
declare -A name_of
for folder in "$root"/examples/plugin_*; do
  kind=${folder##*/plugin_} name=$(basename "$folder"/*.toml .toml)
  if [[ $prefixed ]]; then name=$prefixed$kind; fi
  kinds+=("$kind") name_of[$kind]=$name
  expect "$name" "$tessera" new "$kind" "$name" --into "$projects" >>"$work/new.log"
done
cp -r "$root/examples/tensor_parallel" "$projects"
{
  echo 'cmake_minimum_required(VERSION 3.25)'
  echo 'project(all LANGUAGES CXX)'
  for name in "${name_of[@]}" tensor_parallel; do echo "add_subdirectory($name $name/build)"; done
  echo 'enable_testing()'
} >"$projects/CMakeLists.txt"
say "build ${#kinds[@]} plugins and tensor_parallel"
cmake -S "$projects" -B "$projects" -G Ninja "${options[@]}" >"$work/configure.log"
cmake --build "$projects"
expect "100% tests passed, 0 tests failed out of ${#kinds[@]}" \
  ctest --test-dir "$projects" --output-on-failure

say 'without a build type, a plugin is optimized'
cmake -S "$projects/${name_of[module]}" -B "$work/untyped" -G Ninja \
  "-DCMAKE_PREFIX_PATH=$prefix" "-DCMAKE_CXX_COMPILER=$(cached CMAKE_CXX_COMPILER)" \
  >"$work/untyped.log"
expect ' -O2' grep -m1 '^  FLAGS = .*-fPIC' "$work/untyped/build.ninja"

say 'what they bring'
layer=${name_of[layer]} rule=${name_of[rule]} schedule=${name_of[schedule]}
folder_of() { echo "$projects/$1/build/plugins"; }
paths=()
for name in "${name_of[@]}"; do paths+=(--path "$(folder_of "$name")"); done
listed=$("$tessera" plugins "${paths[@]}")
for kind in "${kinds[@]}"; do
  component=$kind/${name_of[$kind]}
  if [[ $kind == operation ]]; then component=layer/${name_of[$kind]}; fi  # a layer calls it
  if [[ $kind == matrix_rule ]]; then component=rule/${name_of[$kind]}; fi
  if ! grep "^$component " <<<"$listed"; then
    echo "run_plugins.sh: $component is not listed" >&2
    echo "$listed" >&2
    exit 1
  fi
done
expect 'fits SDK ABI' "$tessera" plugins check "$(folder_of "$layer")/libtessera_$layer.so"
expect "kernel example.$rule on host" \
  "$tessera" plugins check "$(folder_of "$rule")/libtessera_$rule.so"
expect 'from model.hidden' "$tessera" plugins show "layer/$layer" "${paths[@]}"

say 'a schedule, verified and drawn'
expect 'verified; bubble' "$tessera" schedule "$schedule" --ranks 4 --microbatches 8 \
  --set ahead=2 --path "$(folder_of "$schedule")"

say 'tensor parallelism in numbers'
expect 'column -> row: 2 collectives' "$projects/tensor_parallel/build/tensor_parallel"

# The plugin's small training, long enough to show a wrong gradient: every layout that ships must
# give the losses of one rank, step by step, within the tolerance that the framework promises; so
# must graphs, and 16 bits within what their rounding does.
losses() { sed 's/.*"loss":\([-+.0-9e]*\).*/\1/' "$1/metrics.jsonl"; }
compare='{ d = ($1 - $2) / $2; if (d < 0) d = -d; if (!($2 > 0) || d > bound) wrong = 1
  if (d > most) most = d; last = $1 }
  END { printf "%d steps to %s, differs by %.1g\n", NR, last, most; exit wrong || NR != 20 }'
# One with a schedule keeps it, over two ranks where the layout has no pipeline. That schedule has
# one chunk on each rank: the chunks of an interleaved schedule go with it (a notice says so).
keep_schedule=(--set parallel.pipeline=2 --set "schedule.type=$schedule")
one_rank=(--set parallel.pipeline=1 --set parallel.data=1 --set 'schedule.type="auto"')
for kind in "${kinds[@]}"; do
  name=${name_of[$kind]} folder=$projects/$name runs=$work/runs/$name
  mkdir -p "$runs"
  # What happens to documents before a training.
  if [[ $kind == document_stage ]]; then
    say "build a corpus with $name"
    expect ': 2 documents' "$tessera" data build "$folder/$name.toml" --path "$folder/build/plugins"
    continue
  fi
  if [[ $kind == tokenizer_trainer ]]; then
    say "train a vocabulary with $name"
    expect ': 16 tokens, ' "$tessera" tokenizer train "$folder/$name.toml" \
      --path "$folder/build/plugins"
    continue
  fi
  # train RUN [FILE OR OPTION...]
  train() {
    local run=$1
    shift
    if ! "$tessera" train "$folder/$name.toml" "$@" --set checkpoint.save=false \
      --set comm.timeout_s=60 --set "run.out=$runs/$run" >"$runs/$run.log" 2>&1; then
      cat "$runs/$run.log" >&2
      echo "run_plugins.sh: $name does not train in layout $run" >&2
      exit 1
    fi
  }
  say "train with $name in every layout"
  train one_rank "${one_rank[@]}"
  if [[ $kind == converter ]]; then continue; fi  # a converter takes no part in a training
  keep=()
  if [[ $kind == schedule ]]; then keep=("${keep_schedule[@]}"); fi
  # as_one_rank FILE BOUND [OPTION...]: with that overlay, within that relative distance
  as_one_rank() {
    local run=$(basename "$1" .toml) bound=$2
    train "$run" "$1" "${@:3}"
    printf '%-14s ' "$run"
    if ! paste <(losses "$runs/$run") <(losses "$runs/one_rank") | awk -v bound="$bound" "$compare"
    then
      echo "run_plugins.sh: losses of $name with $run are not those of one rank" >&2
      exit 1
    fi
  }
  for file in "$root"/configs/parallel/*.toml; do as_one_rank "$file" 2e-6 "${keep[@]}"; done
  graphs=(partial full_iteration)
  if grep -q 'type = "moe"' "$folder/$name.toml"; then graphs+=(moe_routing); fi
  if [[ $kind == graph ]]; then graphs=(); fi  # a policy of its own
  for overlay in "${graphs[@]}"; do
    as_one_rank "$root/configs/graphs/$overlay.toml" 2e-6 "${one_rank[@]}"
  done
  as_one_rank "$root/configs/precision/bf16.toml" 2e-2 "${one_rank[@]}"
  # A loss scale that need not shrink first: no step is skipped.
  as_one_rank "$root/configs/precision/fp16.toml" 2e-2 "${one_rank[@]}" \
    --set precision.loss_scale_start=1024
done
say "all plugins work; they are in $projects"
