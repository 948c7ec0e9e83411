// Layers that differ are kinds of blocks here, which a pattern puts in a row.
#include "layer_kinds.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/error.hpp"
#include "tessera/pattern.hpp"

namespace tessera {

namespace {

constexpr const char* kKinds = "model.blocks.";

// A family has layers without experts, or some with a window, or neither.
bool may_differ(std::string_view key, const Family& family) {
  return key.starts_with(".mlp.") ||
         (family.windows != Windows::none && key == ".attention.window");
}

}  // namespace

std::string table_of(const std::string& kind) { return kKinds + kind; }

std::string pattern_of(const std::vector<bool>& layers, const char* in, const char* out) {
  std::string pattern;
  for (std::size_t i = 0, end = 0; i < layers.size(); i = end) {
    while (end < layers.size() && layers[end] == layers[i]) ++end;
    pattern += fmt::format("{}{}", i == 0 ? "" : " ", layers[i] ? in : out);
    if (end - i > 1) pattern += fmt::format("*{}", end - i);
  }
  return pattern;
}

std::vector<std::string> blocks_of(const Settings& all,
                                   const ModelKeys& ours,
                                   const Family& family) {
  std::vector<std::string> blocks;
  const bool several = family.experts || family.windows != Windows::none;
  const Value* pattern = ours.find("model.pattern");
  if (!several || pattern == nullptr || *pattern == Value("")) {
    ours.only_one_kind();
    blocks.assign(static_cast<std::size_t>(ours.integer("model.layers")), "model.block");
    return blocks;
  }
  const auto name = [&](std::string_view rest) {
    const std::size_t length = std::min(rest.find_first_of(" ,()*"), rest.size());
    if (length == 0) fail_config("model.pattern = {} begins with no name", pattern->text());
    return length;
  };
  for (const std::string& kind : expand_pattern(std::get<std::string>(pattern->data), name)) {
    blocks.push_back(table_of(kind));
  }
  for (auto at = all.lower_bound(kKinds); at != all.end() && at->first.starts_with(kKinds); ++at) {
    const std::string rest = at->first.substr(at->first.find('.', std::string_view(kKinds).size()));
    if (!may_differ(rest, family)) ours.same({blocks.at(0) + rest, at->first});
  }
  return blocks;
}

}  // namespace tessera
