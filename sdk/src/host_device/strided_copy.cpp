#include "sdk/src/host_device/strided_copy.hpp"

#include <cstddef>
#include <cstring>

namespace tessera {
namespace {

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

}  // namespace

void copy_to_dense(const TensorArg& tensor, void* dense) {
  auto* to = static_cast<std::byte*>(dense);
  for_each_run(tensor, [&to](const std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    to += bytes;
  });
}

void copy_from_dense(const TensorArg& tensor, const void* dense) {
  const auto* from = static_cast<const std::byte*>(dense);
  for_each_run(tensor, [&from](std::byte* to, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    from += bytes;
  });
}

}  // namespace tessera
