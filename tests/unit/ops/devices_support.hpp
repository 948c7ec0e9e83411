#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tessera/device.hpp"

namespace tessera {

/// A device of the plugins of this build, or of tests/cuda_emulated, by name.
std::shared_ptr<Device> test_device(const std::string& name, int threads = 2);
/// The same; kernels of this build's plugins unless `arguments` bring others.
std::shared_ptr<Device> test_device(const std::string& name, DeviceArguments arguments);

/// Names of the devices whose memory the CPU addresses.
std::vector<std::string> cpu_devices();

}  // namespace tessera
