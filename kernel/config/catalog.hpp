#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tessera/device/device.hpp"
#include "tessera/error.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// What the configuration may name: every registered component, as the plugin host knows them.
class Catalog {
 public:
  virtual ~Catalog() = default;
  /// nullptr when no loaded plugin brings it.
  virtual const ComponentInfo* find(std::string_view kind, std::string_view type) const = 0;
  /// All components of a kind, by name.
  virtual std::vector<const ComponentInfo*> of_kind(std::string_view kind) const = 0;
  /// The units of hardware that there are here for a device which needs one for each rank
  /// (ComponentInfo::units is not nullptr).
  virtual DeviceUnits units(const ComponentInfo& device) const { return device.units(); }
  /// One line for each library that could not be loaded: "deepep.so: needs libnvshmem.so.3, …".
  virtual std::vector<std::string> load_failures() const = 0;
  /// What ran out while those were loaded, if anything did.
  virtual Resource short_of() const { return Resource::none; }
  /// The failures for the end of an error about something that is not there: an indented line each.
  std::string not_loaded() const {
    std::string text;
    for (const std::string& failure : load_failures()) text += "\n  not loaded: " + failure;
    return text;
  }
  /// Where a component comes from, for errors: "dispatch.so 0.3", "kernel".
  virtual std::string library_of(std::string_view kind, std::string_view type) const = 0;
};

}  // namespace tessera
