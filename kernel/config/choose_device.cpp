#include "kernel/config/choose_device.hpp"

#include <fmt/format.h>

namespace tessera {

ChosenDevice choose_by_units(const Catalog& catalog,
                             std::string_view kind,
                             const std::string& otherwise) {
  std::string why;
  for (const ComponentInfo* info : catalog.of_kind(kind)) {
    if (info->units == nullptr) continue;
    const DeviceUnits units = catalog.units(*info);
    if (units.count > 0) return {info->type, units.text};
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", info->type, units.text);
  }
  if (why.empty()) why = "no plugin is loaded that is for other hardware";
  return {otherwise, why};
}

}  // namespace tessera
