#pragma once
// Rows of logits of experts, each taken by a warp; and scores of routers.
#include "gpu.hpp"
#include "tessera/ops/router.hpp"

namespace tessera::cuda {

inline constexpr double kTinyScore = 1e-20;  // keeps the sum of scores from being 0
inline constexpr int kRouterWarps = 4;       // of a block

__device__ inline int lane_of_thread() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ inline int warp_of_thread() { return static_cast<int>(threadIdx.x) / kWarp; }

/// Calls f(row) for the rows of this thread's warp.
template <class F>
__device__ __forceinline__ void for_rows_of_warp(i64 rows, F f) {
  const i64 first = static_cast<i64>(blockIdx.x) * kRouterWarps + warp_of_thread();
  const i64 step = static_cast<i64>(gridDim.x) * kRouterWarps;
  for (i64 row = first; row < rows; row += step) f(row);
}
/// Calls f(i) for the i below n of this lane.
template <class F>
__device__ __forceinline__ void for_lane(i64 n, F f) {
  for (i64 i = lane_of_thread(); i < n; i += kWarp) f(i);
}

inline LaunchShape router_shape(i64 rows, i64 shared_bytes_of_warp = 0) {
  const i64 blocks = blocks_for(rows, kRouterWarps), most = 0x7fffffff;
  return {.blocks = blocks < most ? blocks : most,
          .threads = kRouterWarps * kWarp,
          .shared_bytes = kRouterWarps * shared_bytes_of_warp};
}

__host__ __device__ inline bool by_softmax(RouterScore score) {
  return score == RouterScore::softmax || score == RouterScore::softmax_before;
}

/// The score of a logit alone; under softmax that is the logit.
template <class C>
__device__ C score_of(RouterScore score, C logit) {
  if (score == RouterScore::sigmoid) return C(1) / (C(1) + std::exp(-logit));
  if (score == RouterScore::sqrt_softplus) {
    return std::sqrt((logit > C(0) ? logit : C(0)) + std::log1p(std::exp(-std::fabs(logit))));
  }
  return logit;
}

template <class C>
__device__ C derivative_of(RouterScore score, C logit) {
  const C sigmoid = C(1) / (C(1) + std::exp(-logit));
  if (score == RouterScore::sigmoid) return sigmoid * (C(1) - sigmoid);
  const C root = score_of(score, logit);
  return root == C(0) ? C(0) : sigmoid / (C(2) * root);
}

/// What a softmax over values divides by.
template <class C>
struct Softmax {
  C largest, sum;
  __device__ C operator()(C logit) const { return std::exp(logit - largest) / sum; }
};

/// The softmax of the n values that value(i, exists) gives, some of which may not exist.
template <class C, class Value>
__device__ Softmax<C> softmax_of(i64 n, Value value) {
  Softmax<C> made{-std::numeric_limits<C>::infinity(), 0};
  for_lane(n, [&](i64 i) {
    bool exists = true;
    const C logit = value(i, exists);
    if (exists && (logit > made.largest || logit != logit)) made.largest = logit;
  });
  made.largest = warp_max(made.largest);
  for_lane(n, [&](i64 i) {
    bool exists = true;
    const C logit = value(i, exists);
    if (exists) made.sum += std::exp(logit - made.largest);
  });
  made.sum = warp_sum(made.sum);
  return made;
}

}  // namespace tessera::cuda
