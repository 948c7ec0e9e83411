// "auto" where the hardware that is here decides, and the key that is about units of it.
#include <fmt/format.h>

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
  const std::string path = join_path(slot.path, "share");
  const Entry* entry = tree.find(path);
  if (entry == nullptr || !entry->value || *entry->value == Value(i64{1})) return;
  if (era.by_units.empty()) {
    problem(path,
            entry->at,
            fmt::format("[{}] share has no effect: any number of ranks compute on \"{}\", of which "
                        "none needs a unit; remove it",
                        slot.path,
                        era.type));
    return;
  }
  notices.push_back(fmt::format(
      "{}: [{}] share is without effect on \"{}\"", entry->key.text(), slot.path, era.type));
  Entry none;
  none.value = Value(i64{1});
  tree.put(path, std::move(none));
}

}  // namespace tessera
