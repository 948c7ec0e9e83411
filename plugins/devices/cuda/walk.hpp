#pragma once
// Two strided tensors of one shape, element by element.
#include <algorithm>
#include <cstdint>

#include "gpu.hpp"

namespace tessera::cuda {

/// Dimensions, the innermost first, in the order in which `out` lies in memory. Those that lie
/// seamlessly in both tensors are one: dense tensors have one of stride 1.
struct Walk {
  int rank = 0;
  i64 elements = 1;
  i64 shape[kMaxRank] = {}, x[kMaxRank] = {}, out[kMaxRank] = {};  ///< strides in elements

  Walk(const TensorArg& of_x, const TensorArg& of_out) : elements(of_out.elements()) {
    int order[kMaxRank], dims = 0;
    for (int d = of_out.rank - 1; d >= 0; --d) {
      if (of_out.shape[d] != 1) order[dims++] = d;
    }
    std::stable_sort(order, order + dims, [&](int a, int b) {
      return std::abs(of_out.strides[a]) < std::abs(of_out.strides[b]);
    });
    for (int i = 0; i < dims; ++i)
      add(of_out.shape[order[i]], of_x.strides[order[i]], of_out.strides[order[i]]);
    if (rank == 0) add(1, 1, 1);
  }

  bool dense() const { return rank == 1 && x[0] == 1 && out[0] == 1; }

  /// Whether `n` neighbours can be moved as one element of their size.
  bool divides(i64 n) const {
    if (x[0] != 1 || out[0] != 1 || shape[0] % n != 0) return false;
    for (int d = 1; d < rank; ++d) {
      if (x[d] % n != 0 || out[d] % n != 0) return false;
    }
    return true;
  }
  Walk divided(i64 n) const {
    Walk units = *this;
    units.elements /= n;
    units.shape[0] /= n;
    for (int d = 1; d < rank; ++d) {
      units.x[d] /= n;
      units.out[d] /= n;
    }
    return units;
  }

  /// Where element `number` of the walk lies in each tensor.
  __device__ void find(i64 number, i64& in_x, i64& in_out) const {
    in_x = in_out = 0;
    for (int d = 0; d < kMaxRank; ++d) {
      if (d >= rank) break;
      i64 at = number;
      if (d + 1 < rank) {
        number = quotient(number, shape[d]);
        at -= number * shape[d];
      }
      in_x += at * x[d];
      in_out += at * out[d];
    }
  }

 private:
  void add(i64 size, i64 x_stride, i64 out_stride) {
    if (rank > 0 && x_stride == x[rank - 1] * shape[rank - 1] &&
        out_stride == out[rank - 1] * shape[rank - 1]) {
      shape[rank - 1] *= size;
      return;
    }
    shape[rank] = size;
    x[rank] = x_stride;
    out[rank] = out_stride;
    ++rank;
  }

  /// A GPU divides 32 bits several times as fast as 64.
  __device__ static i64 quotient(i64 a, i64 b) {
    if (((a | b) >> 32) == 0) return static_cast<u32>(a) / static_cast<u32>(b);
    return a / b;
  }
};

}  // namespace tessera::cuda
