#pragma once
#include <filesystem>
#include <vector>

namespace tessera {

/// The folders to load plugins from, the first one first: `configured` ([plugins] path),
/// TESSERA_PLUGIN_PATH (colons between), and the program's own: `../lib/tessera/plugins` of an
/// installed tree, or `../plugins` of a build tree. Never the working folder or LD_LIBRARY_PATH.
/// Throws ConfigError when a folder that was asked for does not exist.
std::vector<std::filesystem::path> plugin_search_path(
    const std::vector<std::filesystem::path>& configured = {});
/// The same for a given environment variable (nullptr: not set) and program.
std::vector<std::filesystem::path> plugin_search_path(
    const std::vector<std::filesystem::path>& configured,
    const char* environment,
    const std::filesystem::path& program);

/// The running program's file.
std::filesystem::path program_path();

}  // namespace tessera
