#pragma once
#include <filesystem>

#include "tessera/plugin.hpp"

namespace tessera {

/// A plugin's library, loaded and found to fit. It stays in the process until the end: whatever
/// came out of it (objects, functions, texts) may be kept.
struct Library {
  std::filesystem::path path;
  u64 hash = 0;
  const PluginDescriptor* descriptor = nullptr;
};

/// Loads one file. First its symbols are read from the file, then it is loaded, then its descriptor
/// is read; none of its C++ is called. Throws Error, beginning with the path, with the reason.
Library load_library(const std::filesystem::path& path);

}  // namespace tessera
