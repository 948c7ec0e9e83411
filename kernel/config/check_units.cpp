// "auto" where the hardware that is here decides, and the key that is about units of it.
#include <fmt/format.h>

#include <tuple>

#include "kernel/config/checker.hpp"
#include "kernel/config/choose_device.hpp"

namespace tessera {

void Checker::choose_by_units(const Slot& slot, std::vector<TypeEra>& eras) {
  if (!slot.by_units || eras.back().type != "auto") return;
  const auto [type, why] =
      tessera::choose_by_units(catalog_, slot.kind, slot.defaults.front().type);
  TypeEra chosen = era(eras.back().first_layer, slot.kind, type);
  chosen.by_units = why;
  notices.push_back(fmt::format("{}: [{}] type = \"auto\" is \"{}\" here: {}",
                                config_.tree().find(join_path(slot.path, "type"))->at.text(),
                                slot.path,
                                type,
                                why));
  eras.push_back(std::move(chosen));
}

void Checker::check_share(const Slot& slot, const TypeEra& era) {
  if (!slot.by_units || era.info == nullptr || era.info->units != nullptr) return;
  if (!era.by_units.empty()) {
    without_units_ = era.type;
    return;
  }
  const std::string path = join_path(slot.path, "share");
  const Entry* entry = tree.find(path);
  if (entry == nullptr || !entry->value || *entry->value == Value(i64{1})) return;
  problem(path,
          entry->at,
          fmt::format("[{}] share has no effect: any number of ranks compute on \"{}\", of which "
                      "none needs a unit; remove it",
                      slot.path,
                      era.type));
}

void Checker::drop_keys_of_units() {
  if (without_units_.empty()) return;
  // Such a type computes in memory of the host, which communicators carry where it is.
  const std::tuple<const char*, const char*, Value> keys[] = {{"device", "share", Value(i64{1})},
                                                              {"comm", "staged", Value(false)}};
  for (const auto& [table, key, neutral] : keys) {
    const std::string path = join_path(table, key);
    const Entry* entry = tree.find(path);
    if (entry == nullptr || !entry->value || *entry->value == neutral) continue;
    notices.push_back(fmt::format(
        "{}: [{}] {} is without effect on \"{}\"", entry->key.text(), table, key, without_units_));
    Entry none;
    none.value = neutral;
    tree.put(path, std::move(none));
  }
}

}  // namespace tessera
