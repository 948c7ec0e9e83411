#include "kernel/train/run/unbuilt_tables.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace tessera {

namespace {

// From the table, or from what stands for it in a variant of the slot that it is in.
bool made(const RunSetup& setup, std::string_view table) {
  if (setup.maker->made(std::string(table))) return true;
  return std::ranges::any_of(setup.slots.variants, [&](const SlotTables::Variant& variant) {
    if (table != variant.base && !table.starts_with(variant.base + '.')) return false;
    return setup.maker->made(variant.path + std::string(table.substr(variant.base.size())));
  });
}

// "model" of "model.head.norm".
bool made_section(const RunSetup& setup, std::string_view path) {
  return setup.maker->made(std::string(path.substr(0, path.find('.'))));
}

std::string type_of(const RunSetup& setup, const std::string& table) {
  const Entry* type = setup.tree->find(join_path(table, "type"));
  return type != nullptr && type->value ? type->value->text() : "";
}

}  // namespace

void check_unbuilt_tables(const RunSetup& setup, ProblemList& problems) {
  for (const WrittenSlot& slot : setup.slots.written) {
    // Other sections are made elsewhere, as observers are.
    if (made(setup, slot.path) || !made_section(setup, slot.path)) continue;
    const std::string why =
        made(setup, slot.around)
            ? fmt::format("{} makes no \"{}\" as it is configured ({})",
                          type_of(setup, slot.around),
                          last_of(slot.path),
                          slot.doc)
            : fmt::format("nothing is made from [{}], which it is in", slot.around);
    problems.add(
        fmt::format("{}: [{}] {} has no effect: {}", slot.at.text(), slot.path, slot.key, why));
  }
}

}  // namespace tessera
