#pragma once
#include "tessera/tensor.hpp"

namespace tessera {

/// Copies the elements of a strided tensor in host memory to dense memory, row-major.
void copy_to_dense(const TensorArg& tensor, void* dense);
/// The inverse.
void copy_from_dense(const TensorArg& tensor, const void* dense);

}  // namespace tessera
