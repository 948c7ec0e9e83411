// The part of Checker that deals with what a component and the one around it say of each other:
// keys that the latter sets, and slots that it may leave empty.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "kernel/config/checker.hpp"

namespace tessera {

void Checker::tell_given() {
  for (const GivenKey& key : given_) {
    variant_ = key.variant;
    problem(join_path(key.table, key.spec->name),
            key.at,
            fmt::format("[{}] \"{}\" is set by {}", key.table, key.spec->name, giver(*key.spec)));
  }
  variant_.reset();
}

std::string Checker::giver(const FieldSpec& spec) const {
  constexpr std::string_view kAround = "the component around it; remove it here";
  if (spec.from.empty()) return std::string(kAround);
  const Entry* source = tree.find(spec.from);
  if (source != nullptr && source->value) return fmt::format("{}; set that one", spec.from);
  // Of a section whose type here has no such key.
  UnknownKey key;
  key.key = last_of(spec.from);
  key.table = parent_of(spec.from);
  const auto& sections = root_sections();
  const auto section = std::ranges::find(sections, key.table, &RootSection::name);
  if (section != sections.end()) key.kind = section->kind;
  const std::vector<std::string> types = types_with(key);
  const Entry* type = tree.find(join_path(key.table, "type"));
  if (types.empty() || type == nullptr) return std::string(kAround);
  return fmt::format("{}, which only {} {} {}, and [{}] type is {} here; remove it",
                     spec.from,
                     key.kind,
                     fmt::join(types, ", "),
                     types.size() == 1 ? "knows" : "know",
                     key.table,
                     type->value->text());
}

void Checker::find_written_slots() {
  const auto place_of = [](const Origin& at) { return std::tuple(at.layer, at.line, at.column); };
  // The slot whose table a key is in, or in a table of it.
  const auto slot_of = [&](std::string_view path) {
    do path = parent_of(path);
    while (!path.empty() && !slots_.contains(path));
    return path;
  };
  for (auto& [table, of] : slots_) {
    WrittenSlot& slot = of.slot;
    const std::string prefix = table + '.';
    for (auto at = tree.entries().lower_bound(prefix);
         at != tree.entries().end() && at->first.starts_with(prefix);
         ++at) {
      const auto& [path, entry] = *at;
      if (!entry.value || !entry.is_set() || entry.inherited() || slot_of(path) != table) continue;
      const std::string key = path.substr(prefix.size());
      const bool usual =
          key == "type" && (*entry.value == Value("") || *entry.value == Value(of.initial));
      if (usual || (!slot.key.empty() && place_of(slot.at) < place_of(entry.at))) continue;
      slot.key = key;
      slot.at = entry.at;
    }
    if (!slot.key.empty()) slots.written.push_back(slot);
  }
}

}  // namespace tessera
