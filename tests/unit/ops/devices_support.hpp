#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tessera/device/device.hpp"
#include "tessera/testing/core_op_cases.hpp"

namespace tessera {

/// A device of the plugins of this build, or of tests/cuda_emulated, by name.
std::shared_ptr<Device> test_device(const std::string& name, int threads = 2);
/// The same; kernels of this build's plugins unless `arguments` bring others, and keys of [device]:
/// "isa=avx2".
std::shared_ptr<Device> test_device(const std::string& name,
                                    DeviceArguments arguments,
                                    const std::vector<std::string>& keys = {});

/// The device `cpu` with these keys; nullptr where this host lacks an
/// instruction set or a library that they ask for.
std::shared_ptr<Device> cpu_device(const std::vector<std::string>& keys);
/// The device on one instruction set: of device.isa, or "amx_emulated".
std::shared_ptr<Device> cpu_device_on(const std::string& isa);
/// The instruction sets of cpu_device_on.
inline constexpr const char* kInstructionSets[] = {
    "baseline", "avx2", "avx512", "avx512_bf16", "amx", "amx_emulated"};

/// Names of the devices whose memory the CPU addresses.
std::vector<std::string> cpu_devices();

/// The cases of all core operations, made once for all devices.
const std::vector<testing::OpCase>& core_cases(DType dtype);
/// What the device `reference` gives for one of these, by its place; computed once.
const testing::OpOutcome& reference_outcome(DType dtype, std::size_t place);

}  // namespace tessera
