#include "kernel/config/source.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }

}  // namespace

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string excerpt(const std::vector<std::string>& lines, const Origin& at) {
  if (at.line < 1 || static_cast<std::size_t>(at.line) > lines.size()) return "";
  const std::string& line = lines[static_cast<std::size_t>(at.line - 1)];
  const std::string number = at.kind == Origin::set ? "" : fmt::format("{}", at.line);
  // Columns count characters; tabs stay, so that the mark stands below what it marks.
  std::string mark;
  int column = 1, rest = 0;
  for (const char c : line) {
    if (!starts_character(c)) continue;
    if (column++ < at.column) {
      mark += c == '\t' ? '\t' : ' ';
    } else {
      ++rest;
    }
  }
  mark.append(static_cast<std::size_t>(std::max(1, std::min(at.length, rest))), '^');
  return fmt::format("\n{:>5} | {}\n{:>5} | {}", number, line, "", mark);
}

}  // namespace tessera
