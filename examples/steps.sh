# What the scripts of this folder share. Source it in the root of the tree.

# What is done now, and how long the script has run.
say() { printf '\n== %s (%d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

# Installs what a build takes and these packages.
install_packages() {
  say 'packages'
  source tests/setup.sh
  tessera_setup build "$@"
}

# Leaves build/bin/tessera.
build_tessera() {
  say 'build'
  if [[ ! -e build/build.ninja ]]; then
    cmake --preset release -DTESSERA_TESTS=OFF >/dev/null
  fi
  cmake --build build
}

# Leaves the program in $tessera: the one that was given, or one that is built, after these packages
# and what a build takes are installed where $setup is true.
find_tessera() {
  if [[ $tessera ]]; then return; fi
  tessera=build/bin/tessera
  if $setup; then install_packages "$@"; fi
  build_tessera
}
