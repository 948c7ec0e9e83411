#pragma once
#include <chrono>

#include "tessera/device/device.hpp"
#include "tessera/plugin.hpp"

namespace tessera {

/// Asks ComponentInfo::units of a device in a child process: a driver may crash or hang, and a
/// process that has called one may not be forked. Then there are no units, and the text says what
/// happened.
DeviceUnits find_units(const ComponentInfo& device, std::chrono::milliseconds patience);

}  // namespace tessera
