#pragma once
#include <string_view>
#include <vector>

#include "kernels.hpp"
#include "tessera/operation.hpp"

namespace tessera::cpu {

/// All kernels of the device, on one instruction set.
std::vector<Kernel> make_kernels(const Kernels& table);

// One function a source file; each appends its kernels.
void add_copy_kernels(std::vector<Kernel>& kernels);
void add_matmul_kernels(std::vector<Kernel>& kernels);
void add_scalar_kernels(std::vector<Kernel>& kernels, const Kernels& table);

/// Throws Error unless every floating tensor is f32, apart from those at the indices `doubles`,
/// which are f64: the kernels read addresses as these types.
void check_types(std::string_view operation,
                 const TensorArg* tensors,
                 int count,
                 const std::vector<int>& doubles);

template <OperationArgs Args>
void check_types(const Args& args, const std::vector<int>& doubles = {}) {
  check_types(Args::kName, reinterpret_cast<const TensorArg*>(&args), Args::kTensors, doubles);
}

}  // namespace tessera::cpu
