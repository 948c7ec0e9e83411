#pragma once
#include <string>
#include <vector>

#include "tessera/device/device.hpp"

namespace tessera {

/// Throws ConfigError unless this host has units of a device for all of its ranks, of which `share`
/// may have the same one.
void require_enough_units(const std::string& device,
                          const DeviceUnits& units,
                          i64 ranks,
                          i64 share);

/// Throws ConfigError, naming ranks and unit, where more than `share` ranks have the same one.
/// `ids` and `texts` are those of DeviceUnit, by rank.
void require_own_units(const std::vector<std::string>& ids,
                       const std::vector<std::string>& texts,
                       i64 share);

/// How many units there are for each rank; `ids` by rank, as above.
double units_per_rank(const std::vector<std::string>& ids);

}  // namespace tessera
