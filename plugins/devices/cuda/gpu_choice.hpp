#pragma once
#include <optional>
#include <string>

#include "tessera/device/device.hpp"

namespace tessera::cuda {

/// The GPUs that this process sees, or why it can use none. Throws nothing.
DeviceUnits visible_gpus();

/// The GPU of a rank.
struct ChosenGpu {
  std::string hardware;  ///< what it is, and what is installed for it
  DeviceUnit unit;
};

/// Makes the rank's GPU the current one of this thread. `index`: which of the visible; none: by the
/// rank's number on its host. Throws ConfigError where it is not there, or this build has no code
/// for it.
ChosenGpu choose_gpu(std::optional<i64> index, const DeviceArguments& arguments);

}  // namespace tessera::cuda
