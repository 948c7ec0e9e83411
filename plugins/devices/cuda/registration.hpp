#pragma once
#include <string>
#include <vector>

#include "products.hpp"

namespace tessera::cuda {

/// The kernels of a GPU, and what they compute with, which decides bits.
struct KernelSet {
  std::vector<Kernel> kernels;
  std::string hardware;
};

/// Opens cuBLASLt, for the GPU that is current.
KernelSet make_kernels(Fp32Products fp32);
/// The same without library or GPU: what they need, and nothing to launch.
std::vector<Kernel> planned_kernels(Fp32Products fp32);

}  // namespace tessera::cuda
