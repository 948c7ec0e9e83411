#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// What a plugin's file tells without being loaded: loading runs its static initialisers, and with
/// a wrong ABI, or in a library that is no plugin, those may do anything.
struct LibraryFile {
  std::filesystem::path path;
  u64 hash = 0;                      ///< of the whole file
  bool has_symbols = false;          ///< it says what it exports
  std::vector<std::string> symbols;  ///< of what it exports, names that begin with "tessera_"
  std::string abi_fields;            ///< "sdk headers=91c2…;compiler=…"; empty when not found
};

/// Throws Error, beginning with the path, when the file cannot be read or is no shared library of
/// this kind of machine, or has more than 1 GiB.
LibraryFile read_library_file(const std::filesystem::path& path);

}  // namespace tessera
