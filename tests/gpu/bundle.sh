#!/usr/bin/env bash
# Packs what tests/gpu/run.sh needs on a machine that builds nothing: README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'TEXT'
usage: tests/gpu/bundle.sh [options]
  --out DIR        where bundle.tar.xz goes [tests/gpu/bundle]
  --build DIR      a finished Release build [build]
  --device NAME    cuda [the default], or cuda_emulated, for a rehearsal
  --no-text        without the plays of Shakespeare: trainings read LICENSE
TEXT
}

out=tests/gpu/bundle build=build device=cuda text=true
while (($#)); do
  case $1 in
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --device) device=${2:?--device needs a name}; shift 2 ;;
    --no-text) text=false; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "bundle: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
done
most=$((30 << 20))  # bytes; what travels with it wants room too

say() { echo "bundle: $*" >&2; }
give_up() { say "$*"; exit 1; }

plugin=plugins/libtessera_cuda.so
[[ $device == cuda ]] || plugin=tests/cuda/libtessera_cuda_emulated.so
for file in bin/tessera tests/gpu_check lib/libtessera.so "$plugin"; do
  [[ -e $build/$file ]] || give_up "$build/$file is not there: build first (cmake --build $build)"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/bundle
# The shape of this tree, so that scripts and configurations find what they name.
mkdir -p "$tree"/build/{bin,lib,tests,plugins} "$tree"/tests "$out"
cp -r configs LICENSE "$tree"
cp -r tests/bench "$tree/tests"
tar -c --exclude=./bundle -C tests/gpu . | (mkdir "$tree/tests/gpu" && tar -x -C "$tree/tests/gpu")
if $text; then
  examples/fetch_shakespeare.sh build/data/shakespeare >&2
  mkdir -p "$tree/build/data"
  cp -r build/data/shakespeare "$tree/build/data"
fi
cp "$build/bin/tessera" "$tree/build/bin"
cp "$build/tests/gpu_check" "$tree/build/tests"
cp "$build/lib/libtessera.so" "$tree/build/lib"
cp "$build"/plugins/*.so "$tree/build/plugins"
if [[ $device != cuda ]]; then
  mkdir "$tree/build/tests/cuda"
  cp "$build/$plugin" "$tree/build/tests/cuda"
fi
mapfile -t ours < <(find "$tree/build" -type f \
  \( -name '*.so' -o -path '*/bin/*' -o -name gpu_check \))
strip "${ours[@]}"

# What the machine has: its C and C++ libraries, which PyTorch needs too, and its driver's.
system='/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util|anl|stdc\+\+|gcc_s|cuda)\.so[^/]*)$'
# "name => path" of all libraries of a file.
libraries() { ldd "$@" | sed -nE 's/^\s*(\S+) => (.*)$/\1 \2/p' | sort -u; }

declare -A taken
while read -r name path _; do
  [[ $path != not ]] || give_up "$name is not found on this machine"
  if [[ $path =~ $system || $name == libtessera.so || ${taken[$name]:-} ]]; then continue; fi
  taken[$name]=1
  cp -L "$path" "$tree/build/lib/$name"
done < <(for file in "$build/bin/tessera" "$build/tests/gpu_check" "$build"/plugins/*.so \
  "$build/$plugin"; do libraries "$file"; done)
strip --strip-unneeded "$tree"/build/lib/*

# All the rest resolves inside the bundle.
for file in "${ours[@]}"; do
  readelf -d "$file" | grep -qE 'R(UN)?PATH.*\$ORIGIN' || [[ $file == */libtessera.so ]] ||
    give_up "$file does not look for libraries beside itself (RUNPATH)"
  while read -r name path _; do
    [[ $path =~ $system ]] || [[ $(realpath "${path%% *}") == "$(realpath "$tree")"/* ]] ||
      give_up "${file#"$tree"/} would take $name from $path"
  done < <(LD_LIBRARY_PATH=$tree/build/lib libraries "$file")
done
glibc=$(ldd --version | sed -nE '1s/.* ([0-9.]+)$/\1/p')
glibcxx=$(readelf -VW "${ours[@]}" "$tree"/build/lib/* | grep -oE 'GLIBCXX_[0-9.]+' |
  sort -uV | tail -1)
version=$(LD_LIBRARY_PATH=$tree/build/lib "$tree/build/bin/tessera" --version)
commit=$(sed -nE '1s/.*commit ([^ ]+).*/\1/p' <<<"$version")
printf '{"commit": "%s", "glibc": "%s", "libstdc++": "%s", "device": "%s"}\n' \
  "$commit" "$glibc" "$glibcxx" "$device" >"$tree/bundle.json"

tar -c -C "$work" --sort=name --owner=0 --group=0 bundle | xz -T0 -1 >"$out/bundle.tar.xz.part"
bytes=$(stat -c %s "$out/bundle.tar.xz.part")
((bytes <= most)) || give_up "$((bytes >> 20)) MiB, more than the $((most >> 20)) that it may have"
mv "$out/bundle.tar.xz.part" "$out/bundle.tar.xz"
say "$out/bundle.tar.xz: $((bytes >> 20)) MiB, commit $commit;" \
  "wants glibc $glibc and $glibcxx or later"
