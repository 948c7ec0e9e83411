#pragma once
// Functions between two products, and their derivatives.
#include "gpu.hpp"

namespace tessera::cuda {

/// A function and its derivative at one place.
template <class C>
struct Slope {
  C value, derivative;
};

template <class C>
__device__ __forceinline__ C sigmoid(C x) {
  return C(1) / (C(1) + std::exp(-x));
}

template <class C>
__device__ __forceinline__ Slope<C> silu(C x) {
  const C s = sigmoid(x);
  return {x * s, s * (C(1) + x * (C(1) - s))};
}

// GELU's tanh form is x · sigmoid(2u), u = sqrt(2/π) (x + 0.044715 x³): no cancellation anywhere.
inline constexpr double kTwoRoot = 1.5957691216057308;  // 2 sqrt(2/π)
inline constexpr double kCubic = 0.044715;

template <class C>
__device__ __forceinline__ Slope<C> gelu(C x) {
  const C s = sigmoid(x * (C(kTwoRoot) + C(kTwoRoot * kCubic) * x * x));
  // Beyond 20, s (1 - s) is 0; a square that overflows would make it NaN.
  const C square = std::fmin(x * x, C(400));
  const C inner = C(kTwoRoot) + C(3 * kTwoRoot * kCubic) * square;
  return {x * s, s + x * s * (C(1) - s) * inner};
}

/// Φ(x), the share of the standard normal distribution below x; no cancellation where it is small.
template <class C>
__device__ __forceinline__ C normal_share(C x) {
  return C(0.5) * std::erfc(x * C(-0.7071067811865476));
}

template <class C>
__device__ __forceinline__ Slope<C> gelu_erf(C x) {
  const C share = normal_share(x);
  const C density = C(0.3989422804014327) * std::exp(C(-0.5) * x * x);
  return {x * share, share + x * density};
}

template <class C>
__device__ __forceinline__ Slope<C> tanh_slope(C x) {
  const C power = std::exp(C(-2) * std::fabs(x)), sum = C(1) + power;
  const C size = (C(1) - power) / sum;
  return {x < C(0) ? -size : size, C(4) * power / (sum * sum)};  // 1 - tanh² would cancel
}

}  // namespace tessera::cuda
