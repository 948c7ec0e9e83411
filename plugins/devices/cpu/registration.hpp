#pragma once
#include <string>
#include <vector>

#include "kernels.hpp"

namespace tessera::cpu {

/// All kernels of the device that HostDevice does not bring, on one instruction set.
std::vector<Kernel> make_kernels(const Kernels& table);

/// Of them the products of whole matrices, by oneDNN or by the tiles of simd/ (README.md); each
/// device has its own.
std::vector<Kernel> make_products(const Kernels& table);

/// The instruction set, and who multiplies which dtypes.
std::string hardware_text(const Kernels& table);

}  // namespace tessera::cpu
