#include "kernel/comm/control_plane/facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tessera/error.hpp"

namespace tessera {

namespace {

std::string take_field(std::string_view& text) {
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  const auto start = static_cast<std::size_t>(end - text.data()) + 1;
  require(error == std::errc() && start <= text.size() && size <= text.size() - start,
          "the facts of a rank are garbled; do all ranks run the same version of Tessera?");
  std::string field(text.substr(start, size));
  text.remove_prefix(start + size);
  return field;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// `text` from shortly before the place where it differs from `other`.
std::string excerpt(std::string_view text, std::string_view other) {
  constexpr std::size_t kBefore = 40;
  constexpr std::size_t kShown = 160;
  const auto [here, there] = std::mismatch(text.begin(), text.end(), other.begin(), other.end());
  const auto place = static_cast<std::size_t>(here - text.begin());
  const std::size_t from = std::max(text.size(), other.size()) <= kShown || place <= kBefore
                               ? std::size_t{0}
                               : place - kBefore;
  const std::string_view shown = text.substr(from, kShown);
  return fmt::format(
      "\"{}{}{}\"", from > 0 ? "..." : "", shown, from + shown.size() < text.size() ? "..." : "");
}

std::string line_or_end(const std::vector<std::string_view>& lines,
                        const std::vector<std::string_view>& others,
                        std::size_t index) {
  if (index >= lines.size()) return "missing";
  return excerpt(lines[index], index < others.size() ? others[index] : std::string_view());
}

// Describes the first difference of two texts that differ.
std::string first_difference(std::string_view mine,
                             i64 my_rank,
                             std::string_view theirs,
                             i64 their_rank) {
  const auto a = lines_of(mine);
  const auto b = lines_of(theirs);
  if (a.size() <= 1 && b.size() <= 1) {
    return fmt::format("{} on rank {}, {} on rank {}",
                       excerpt(mine, theirs),
                       my_rank,
                       excerpt(theirs, mine),
                       their_rank);
  }
  std::size_t line = 0;
  while (line < a.size() && line < b.size() && a[line] == b[line]) ++line;
  return fmt::format("line {} is {} on rank {}, {} on rank {}",
                     line + 1,
                     line_or_end(a, b, line),
                     my_rank,
                     line_or_end(b, a, line),
                     their_rank);
}

}  // namespace

// Each field as "length:bytes", so that any text may stand in it.
std::string pack_facts(const std::vector<Fact>& facts) {
  std::string text;
  for (const auto& [name, value] : facts) {
    text += fmt::format("{}:{}{}:{}", name.size(), name, value.size(), value);
  }
  return text;
}

std::vector<Fact> unpack_facts(std::string_view text) {
  std::vector<Fact> facts;
  while (!text.empty()) {
    std::string name = take_field(text);
    facts.emplace_back(std::move(name), take_field(text));
  }
  return facts;
}

std::string describe_difference(const std::vector<Fact>& mine,
                                i64 my_rank,
                                const std::vector<Fact>& theirs,
                                i64 their_rank,
                                std::string_view advice) {
  const auto name = [](const std::vector<Fact>& facts, std::size_t i) -> std::string_view {
    if (i < facts.size()) return facts[i].first;
    return "nothing more";
  };
  for (std::size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
    const std::string_view my_name = name(mine, i), their_name = name(theirs, i);
    if (my_name != their_name) {
      return fmt::format(
          "ranks compare different things: rank {} {}, rank {} {}; do all run the same version of "
          "Tessera?",
          my_rank,
          my_name,
          their_rank,
          their_name);
    }
    if (mine[i].second != theirs[i].second) {
      return fmt::format("ranks disagree on {}: {}; {}",
                         my_name,
                         first_difference(mine[i].second, my_rank, theirs[i].second, their_rank),
                         advice);
    }
  }
  return {};
}

}  // namespace tessera
