#pragma once
#include <filesystem>
#include <string>

#include "tests/common/test_folder.hpp"

namespace tessera::testing {

/// Folder of one of the plugins that tests/unit/plugin/CMakeLists.txt builds.
std::filesystem::path plugin_folder(const std::string& name);
/// Its library.
std::filesystem::path plugin_file(const std::string& name);

}  // namespace tessera::testing
