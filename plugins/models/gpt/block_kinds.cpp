#include "block_kinds.hpp"

#include <algorithm>

#include "tessera/io/suggest.hpp"
#include "tessera/pattern.hpp"

namespace tessera {

namespace {

std::vector<std::string> names_of(const BlockKinds& kinds) {
  std::vector<std::string> names;
  for (const auto& [name, component] : kinds) names.push_back(name);
  return names;
}

std::size_t kind(std::string_view rest, const BlockKinds& kinds) {
  constexpr std::string_view kWord =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  const std::size_t length = std::min(rest.find_first_not_of(kWord), rest.size());
  if (length == 0) {
    fail_config("unexpected \"{}\"; names of [model.blocks], (…) and *n are known", rest.front());
  }
  const std::string name(rest.substr(0, length));
  if (kinds.contains(name)) return length;
  const std::vector<std::string> names = names_of(kinds);
  const auto near = nearest(name, names);
  fail_config("there is no [model.blocks.{}]; {}",
              name,
              near            ? fmt::format("did you mean \"{}\"?", *near)
              : names.empty() ? "there are none"
                              : fmt::format("there are {}", fmt::join(names, ", ")));
}

}  // namespace

std::vector<Component<Layer>> blocks_of(const std::string& pattern,
                                        const BlockKinds& kinds,
                                        const Component<Layer>& block,
                                        i64 layers) {
  if (pattern.empty()) {
    if (!kinds.empty()) {
      fail_config("model.blocks.{}: model.pattern says which blocks are of this kind, and is empty",
                  kinds.begin()->first);
    }
    return std::vector<Component<Layer>>(static_cast<std::size_t>(layers), block);
  }
  std::vector<std::string> row;
  try {
    row = expand_pattern(pattern, [&](std::string_view rest) { return kind(rest, kinds); });
  } catch (const ConfigError& error) {
    fail_config("model.pattern: {}", error.what());
  }
  if (static_cast<i64>(row.size()) != layers) {
    fail_config("model.pattern: it has {} blocks; model.layers = {}", row.size(), layers);
  }
  for (const auto& [name, component] : kinds) {
    if (std::ranges::find(row, name) != row.end()) continue;
    fail_config("model.blocks.{}: no block of model.pattern is of this kind", name);
  }
  std::vector<Component<Layer>> blocks;
  for (const std::string& name : row) blocks.push_back(kinds.at(name));
  return blocks;
}

}  // namespace tessera
