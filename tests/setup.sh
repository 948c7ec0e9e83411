# What a Debian 12 machine needs, in one place. Source it and call
#
#   tessera_setup build     what it takes to build and run
#   tessera_setup all       also what the tests take
#   tessera_setup build python3-pip     and this package
#
# It installs what is missing, with sudo when not root, and does nothing when nothing is missing.

TESSERA_BUILD_PACKAGES=(
  g++ cmake ninja-build ccache lld pkg-config
  libboost-dev          # Boost.DLL, headers only
  libcli11-dev
  libdnnl-dev           # plugins/devices/cpu
  libfmt-dev
  libgloo-dev           # plugins/communicators/gloo
  libpcre2-dev          # plugins/tokenizers/bpe
  libsentencepiece-dev  # plugins/tokenizers/sentencepiece
  libsimdjson-dev       # kernel/data: documents in JSON
  libsodium-dev         # kernel/comm: proofs and sealed messages of the store
  libspdlog-dev
  libtomlplusplus-dev
  libutf8proc-dev       # plugins/tokenizers/bpe, plugins/document_stages
  libxxhash-dev
  libzstd-dev           # kernel/data: packed documents
  nlohmann-json3-dev
  ocl-icd-opencl-dev    # the CMake files of libdnnl-dev look for it, Tessera does not use it
  zlib1g-dev            # kernel/data: packed documents
)
TESSERA_TEST_PACKAGES=(
  clang-16              # compiles the tests (tests/clang.cmake)
  clang-format-14
  clang-tidy-14
  gdb                   # examples/when_a_run_dies
  git                   # the lint tests ask it which files belong to the tree
  iproute2              # tests/e2e: two hosts as network namespaces
  libbenchmark-dev
  libclang-rt-16-dev    # tests/fuzz: libFuzzer, and clang's sanitizers
  libgmock-dev
  libgtest-dev
  python3
  python3-venv          # tests/oracle
)

tessera_setup() {
  local packages=("${TESSERA_BUILD_PACKAGES[@]}") missing=() package state
  if [[ $1 == all ]]; then packages+=("${TESSERA_TEST_PACKAGES[@]}"); fi
  packages+=("${@:2}")
  if ! command -v apt-get >/dev/null; then
    echo "setup: this is not Debian; needed are its packages: ${packages[*]}"
    return 0
  fi
  for package in "${packages[@]}"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    if [[ $state != installed ]]; then missing+=("$package"); fi
  done
  if ((${#missing[@]} == 0)); then
    echo "setup: all ${#packages[@]} packages are installed"
    return 0
  fi
  local as_root=(env DEBIAN_FRONTEND=noninteractive)
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "setup: missing, and neither root nor sudo to install it: ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo "${as_root[@]}")
  fi
  echo "setup: installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq || return
  "${as_root[@]}" apt-get install -qq -y --no-install-recommends "${missing[@]}"
}
