#pragma once
#include <string>
#include <vector>

#include "cpu_config.hpp"
#include "kernels.hpp"

namespace tessera::cpu {

struct KernelSet {
  std::vector<Kernel> kernels;
  std::string hardware;  ///< Device::hardware: instruction set, who multiplies which dtypes
};

/// All kernels of the device that HostDevice does not bring, on one instruction set.
KernelSet make_kernels(const Kernels& table, const CpuConfig& config);

/// The kernels for products of whole matrices, by the tiles of simd/ or a library (README.md); each
/// device has its own.
KernelSet make_products(const Kernels& table, const CpuConfig& config);

}  // namespace tessera::cpu
