#pragma once
#include <cstddef>

#include "tessera/tensor.hpp"

namespace tessera {

/// Calls f(address, bytes) for each run of elements that lie side by side, in row-major order.
template <class F>
void for_each_run(const TensorArg& tensor, F f) {
  if (tensor.elements() == 0) return;
  const i64 size = dtype_size(tensor.dtype);
  i64 run = 1;
  int outer = tensor.rank;  // dimensions that are walked; the rest is one run
  while (outer > 0 && (tensor.shape[outer - 1] == 1 || tensor.strides[outer - 1] == run)) {
    run *= tensor.shape[--outer];
  }
  i64 at[kMaxRank] = {};
  i64 offset = 0;
  for (;;) {
    f(tensor.as<std::byte>() + offset * size, static_cast<std::size_t>(run * size));
    int dim = outer - 1;
    for (; dim >= 0; --dim) {
      offset += tensor.strides[dim];
      if (++at[dim] < tensor.shape[dim]) break;
      offset -= tensor.strides[dim] * tensor.shape[dim];
      at[dim] = 0;
    }
    if (dim < 0) return;
  }
}

/// Copies the elements of a strided tensor in host memory to dense memory, row-major.
TESSERA_API void copy_to_dense(const TensorArg& tensor, void* dense);
/// The inverse.
TESSERA_API void copy_from_dense(const TensorArg& tensor, const void* dense);

}  // namespace tessera
