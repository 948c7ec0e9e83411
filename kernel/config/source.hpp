#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/config/tree.hpp"

namespace tessera {

/// One file or --set, kept to show the source line in errors.
struct ConfigSource {
  std::string name;
  std::filesystem::path folder;    ///< what relative paths written here are relative to
  std::vector<std::string> lines;  ///< of a --set: the argument
};

std::vector<std::string> split_lines(std::string_view text);

/// The source line at a position, with its number and the place underlined, each line preceded by a
/// line feed; nothing where no line is known. A long line is cut to the part around the position;
/// control characters are shown as question marks:
///
///        12 | betta1 = 0.9
///           | ^^^^^^
std::string excerpt(const std::vector<std::string>& lines, const Origin& at);

}  // namespace tessera
