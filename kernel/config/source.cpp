#include "kernel/config/source.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/io/utf8.hpp"

namespace tessera {
namespace {

constexpr std::size_t kShown = 160;  // characters of a line

// Columns count characters. What would move the cursor or colour the terminal is a question mark,
// and so is a byte that is no UTF-8.
std::vector<std::string> characters(std::string_view line) {
  std::vector<std::string> out;
  while (!line.empty()) {
    const std::string_view next = next_character(line);
    const bool shown = next == "\t" || (character_length(next) > 0 && !acts_on_terminal(next));
    out.emplace_back(shown ? next : "?");
    line.remove_prefix(next.size());
  }
  return out;
}

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
  const std::string number = at.kind == Origin::set ? "" : fmt::format("{}", at.line);
  const std::vector<std::string> line = characters(lines[static_cast<std::size_t>(at.line - 1)]);
  const auto column = std::min(static_cast<std::size_t>(std::max(at.column, 1)) - 1, line.size());
  // A long line is cut to the part around the place.
  const bool whole = line.size() <= kShown;
  const std::size_t from = whole || column < kShown / 2 ? 0 : column - kShown / 2;
  const std::size_t to = std::min(line.size(), from + kShown);
  const std::string before = from > 0 ? "..." : "", after = to < line.size() ? "..." : "";
  std::string text = before, mark(before.size(), ' ');
  for (std::size_t i = from; i < to; ++i) {
    text += line[i];
    // Tabs stay, so that the mark stands below what it marks.
    if (i < column) mark += line[i] == "\t" ? '\t' : ' ';
  }
  const auto length = static_cast<std::size_t>(std::max(at.length, 1));
  mark.append(std::max<std::size_t>(1, std::min(length, to - column)), '^');
  return fmt::format("\n{:>5} | {}{}\n{:>5} | {}", number, text, after, "", mark);
}

}  // namespace tessera
