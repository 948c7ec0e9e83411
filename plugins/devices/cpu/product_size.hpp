#pragma once
#include "tessera/device/core_ops.hpp"
#include "tessera/parallel_for.hpp"
#include "thread_work.hpp"

namespace tessera::cpu {

inline i64 multiplications(const MatmulArgs& args) {
  return args.out.elements() * args.a.shape[args.transpose_a ? 0 : 1];
}

/// Products of fewer multiplications are not worth a second thread.
constexpr i64 kSmallProduct = 2 * kThreadWork;

/// The threads that a library gets for a product.
inline int threads_for(const MatmulArgs& args) {
  return multiplications(args) < kSmallProduct ? 1 : parallel_threads();
}

}  // namespace tessera::cpu
