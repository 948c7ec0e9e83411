#!/usr/bin/env bash
# clang-tidy over the sources that differ from a commit (HEAD unless --since names another), or over
# all of the tree with --all. Needs a configured build, build/ or --build DIR: benches are looked at
# where it has them.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=build since=HEAD all=false
while (($#)); do
  case $1 in
    --build) build=$2; shift 2 ;;
    --since) since=$2; shift 2 ;;
    --all) all=true; shift ;;
    *) echo "usage: tests/lint/tidy.sh [--build DIR] [--since COMMIT | --all]" >&2; exit 2 ;;
  esac
done
if ! command -v clang-tidy-14 >/dev/null; then
  echo "clang-tidy-14 is not installed (tests/setup.sh installs it)"
  exit 77
fi
cache=$build/CMakeCache.txt
[[ -f $cache ]] || { echo "no $cache: configure first" >&2; exit 2; }
# A build compiles several sources at a time; here each has a command of its own. clang 14 cannot
# read the precompiled headers of g++ or clang 16; sources include what they need themselves.
cmake -S . -B "$build/tidy" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTESSERA_UNITY=OFF \
  -DTESSERA_BENCH="$(sed -n 's/^TESSERA_BENCH:BOOL=//p' "$cache")" \
  -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
cmake --build "$build/tidy" --target tessera_abi_stamp >/dev/null
database=$build/tidy/compile_commands.json
sed -i -E 's/-Winvalid-pch -include [^ ]*cmake_pch.hxx//
  s/-Xclang -include-pch -Xclang [^ ]* -Xclang -include -Xclang [^ ]*cmake_pch.hxx//' "$database"

if $all; then
  changed=$(git ls-files)
else
  changed=$(git diff --name-only --diff-filter=d "$since" &&
    git ls-files --others --exclude-standard)
fi
# Only what the build compiles; headers are seen through the sources that include them. The kernels
# of simd/ use vector extensions of GCC that clang 14 does not know.
compiled() { grep -qF "\"file\": \"$PWD/$1\"" "$database"; }
mapfile -t sources < <(grep '\.cpp$' <<<"$changed" | grep -v /simd/ | sort -u |
  while read -r file; do if compiled "$file"; then echo "$file"; fi; done)
if ((${#sources[@]} == 0)); then
  echo "nothing to check"
  exit 0
fi
printf '%s\n' "${sources[@]}"
# clang 14 knows _Float16 only where the processor has it.
printf '%s\0' "${sources[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 -p "$build/tidy" --quiet --extra-arg=-mavx512fp16
