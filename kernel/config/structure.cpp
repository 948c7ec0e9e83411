#include "kernel/config/structure.hpp"

#include <fmt/format.h>

#include "tessera/io/written.hpp"

namespace tessera {

Structure structure_of(const ConfigTree& tree) {
  Structure structure;
  for (const auto& [path, entry] : tree.entries()) {
    if (entry.structural && entry.value) structure.emplace(path, entry.value->text());
  }
  return structure;
}

std::string StructureChange::text() const {
  return fmt::format("{}: {}, now {}", key, written_plain(before, 400), written_plain(now, 400));
}

std::vector<StructureChange> structure_changes(const Structure& before, const ConfigTree& now) {
  const Structure here = structure_of(now);
  const auto differs = [&](const std::string& key) {
    const auto old = before.find(key), present = here.find(key);
    return old != before.end() && present != here.end() && old->second != present->second;
  };
  std::vector<StructureChange> changes;
  for (const auto& [key, value] : here) {
    if (!differs(key) || differs(now.find(key)->from)) continue;
    changes.push_back({key, before.at(key), value});
  }
  return changes;
}

}  // namespace tessera
