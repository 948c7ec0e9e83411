#pragma once
#include "tessera/device/core_ops.hpp"

namespace tessera::cpu {
namespace {  // kernels of several instruction sets include it

/// Products of a few rows, as generation makes them for each token, are bound by reading the right
/// factor, whose lines are columns of the product: to pack it would take longer than to multiply
/// it. In 16 bits more than four rows meet prepared words (pack_weight), with the bits of tiles.
[[gnu::always_inline]] inline bool has_few_rows(const MatmulArgs& args) {
  const i64 few = args.a.dtype == DType::fp32 ? 8 : 4;
  return args.out.shape[0] <= few && !args.transpose_a && args.transpose_b;
}

}  // namespace
}  // namespace tessera::cpu
